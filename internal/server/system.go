package server

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// operatingSystem names the system as Redis does: name, release, machine.
var operatingSystem = sync.OnceValue(func() string {
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return runtime.GOOS + " unknown " + runtime.GOARCH
	}
	return fmt.Sprintf("%s %s %s", unix.ByteSliceToString(name.Sysname[:]), unix.ByteSliceToString(name.Release[:]),
		unix.ByteSliceToString(name.Machine[:]))
})

// executable is the path of the program, empty if it cannot be told.
var executable = sync.OnceValue(func() string {
	path, _ := os.Executable()
	return path
})

// Version returns kevy's own version, as the build recorded it.
var Version = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.1.0-dev"
})
