// Package alarm waits for times that are shorter than what the runtime's timers
// are good for: these are a millisecond late where the process has nothing else
// to do. The kernel's are not, where they can be used; elsewhere the runtime's are.
package alarm
