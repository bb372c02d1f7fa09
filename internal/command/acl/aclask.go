package acl

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"kevy/internal/acl"
	"kevy/internal/command"
	"kevy/resp"
)

func cat(table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "cat", Arity: -2, Flags: plainFlags, Since: "6.0.0", Complexity: "O(N) for N commands", Syntax: "[categoryname]",
		Summary: "Lists the categories, or the commands of one.",
		Run: func(c *command.Ctx) {
			var names []string
			switch len(c.Args) {
			case 2:
				names = command.CategoryNames()
			case 3:
				name := string(command.CText(c.Args[2]))
				category := command.CategoryNamed(name)
				if category == 0 {
					const most = 128 // bytes that are repeated
					c.W.Error(resp.Errorf("ERR", "Unknown category '%s'", name[:min(len(name), most)]))
					return
				}
				names = inCategory(nil, table().Originals(), category)
			default:
				c.W.Error(command.SubcommandError(c))
				return
			}
			c.W.Array(len(names))
			for _, n := range names {
				c.W.BulkString(n)
			}
		},
	}
}

func inCategory(names []string, specs []*command.Spec, category command.Category) []string {
	for _, s := range specs {
		if s.Categories()&category != 0 {
			names = append(names, s.FullName())
		}
		names = inCategory(names, s.Sub, category)
	}
	return names
}

func dryRun(srv Server, table func() *command.Table) *command.Spec {
	return &command.Spec{
		Name: "dryrun", Arity: -4, Flags: adminFlags, Since: "7.0.0", Complexity: "O(1)", Syntax: "username command [arg [arg ...]]",
		Summary: "Answers whether a user could run a command, which is not run.",
		Run: func(c *command.Ctx) {
			u := srv.Users().Find(string(c.Args[2]))
			if u == nil {
				c.W.Error(resp.Errorf("ERR", "User '%s' not found", command.CText(c.Args[2])))
				return
			}
			args := c.Args[3:]
			spec := table().Lookup(args)
			if spec == nil || len(spec.Sub) > 0 && len(args) > 1 {
				c.W.Error(resp.Errorf("ERR", "Command '%s' not found", command.CText(args[0])))
				return
			}
			if !spec.ArityFits(len(args)) {
				c.W.Error(spec.ArityError())
				return
			}
			switch reason, arg := u.Rights().Check(spec, args); reason {
			case acl.Allowed:
				c.W.OK()
			case acl.Command:
				c.W.BulkString("This user has no permissions to run the '" + spec.FullName() + "' command")
			default:
				c.W.BulkString("This user has no permissions to access the '" + string(command.CText(args[arg])) + "' " + reason.String())
			}
		},
	}
}

// maxPassBits bounds ACL GENPASS.
const maxPassBits = 4096

func genPass() *command.Spec {
	return &command.Spec{
		Name: "genpass", Arity: -2, Flags: plainFlags, Since: "6.0.0", Complexity: "O(1)", Syntax: "[bits]",
		Summary: "Answers a random password.",
		Run: func(c *command.Ctx) {
			bits := int64(256)
			switch len(c.Args) {
			case 2:
			case 3:
				var ok bool
				if bits, ok = command.ParseInt(c.Args[2]); !ok {
					c.W.Error(command.ErrNotInt)
					return
				}
			default:
				c.W.Error(command.SubcommandError(c))
				return
			}
			if bits <= 0 || bits > maxPassBits {
				c.W.Error(resp.Errorf("ERR", "ACL GENPASS argument must be the number of bits for the output password, a positive number up to %d", maxPassBits))
				return
			}
			var random [maxPassBits / 8]byte
			_, _ = rand.Read(random[:]) // never fails: crypto/rand ends the process instead
			c.W.BulkString(hex.EncodeToString(random[:])[:(bits+3)/4])
		},
	}
}

func log(srv Server) *command.Spec {
	return &command.Spec{
		Name: "log", Arity: -2, Flags: adminFlags, Since: "6.0.0", Complexity: "O(N) for N entries answered", Syntax: "[count | RESET]",
		Summary:     "Answers what was refused, the latest first, or forgets it.",
		Differences: "A key, channel or name is shown up to 4096 bytes.",
		Run: func(c *command.Ctx) {
			most := int64(10)
			switch {
			case len(c.Args) > 3:
				c.W.Error(command.SubcommandError(c))
				return
			case len(c.Args) == 3 && strings.EqualFold(string(c.Args[2]), "RESET"):
				srv.Users().Log().Reset()
				c.W.OK()
				return
			case len(c.Args) == 3:
				var ok bool
				if most, ok = command.ParseInt(c.Args[2]); !ok {
					c.W.Error(command.ErrNotInt)
					return
				}
			}
			now := srv.NowMs()
			entries := srv.Users().Log().Latest(most)
			w := c.W
			w.Array(len(entries))
			text := func(name, value string) {
				w.BulkString(name)
				w.BulkString(value)
			}
			for i := range entries {
				e := &entries[i]
				w.Map(7)
				w.BulkString("count")
				w.Int(e.Count)
				text("reason", e.Reason.String())
				text("context", e.Context)
				text("object", e.Object)
				text("username", e.Username)
				w.BulkString("age-seconds")
				w.Double(float64(now-e.UnixMs) / 1000)
				text("client-info", e.Client)
			}
		},
	}
}
