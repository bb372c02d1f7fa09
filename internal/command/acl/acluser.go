package acl

import (
	"kevy/internal/command"
	"kevy/resp"
)

func setUser(srv Server) *command.Spec {
	return &command.Spec{
		Name: "setuser", Arity: -3, Flags: adminFlags, Since: "6.0.0", Complexity: "O(N) for N rules", Syntax: "username [rule [rule ...]]",
		Summary: "Makes a user, or changes what it may do.",
		Secrets: command.HideFrom(2),
		Run: func(c *command.Ctx) {
			rules := make([]string, 0, len(c.Args)-3)
			for _, r := range c.Args[3:] {
				rules = append(rules, string(r))
			}
			if err := srv.SetUser(string(c.Args[2]), rules); err != nil {
				c.W.Error(err)
				return
			}
			c.W.OK()
		},
	}
}

func delUser(srv Server) *command.Spec {
	return &command.Spec{
		Name: "deluser", Arity: -3, Flags: adminFlags, Since: "6.0.0", Complexity: "O(N+M) for N users and M connections", Syntax: "username [username ...]",
		Summary: "Removes users, and ends their connections.",
		Secrets: command.HideFrom(2),
		Run: func(c *command.Ctx) {
			names := make([]string, 0, len(c.Args)-2)
			for _, n := range c.Args[2:] {
				names = append(names, string(n))
			}
			n, err := srv.DeleteUsers(c.Session, names)
			if err != nil {
				c.W.Error(err)
				return
			}
			c.W.Int(int64(n))
		},
	}
}

func getUser(srv Server) *command.Spec {
	return &command.Spec{
		Name: "getuser", Arity: 3, Flags: adminFlags, Since: "6.0.0", Complexity: "O(N) for N rules of the user", Syntax: "username",
		Summary: "Answers what a user may do.",
		Secrets: command.HideFrom(2),
		Run: func(c *command.Ctx) {
			u := srv.Users().Find(string(c.Args[2]))
			if u == nil {
				c.W.Null()
				return
			}
			r := u.Rights()
			w := c.W
			w.Map(6)
			w.BulkString("flags")
			flags := r.Flags()
			w.Set(len(flags))
			for _, f := range flags {
				w.BulkString(f)
			}
			w.BulkString("passwords")
			w.Array(len(r.Passwords()))
			for _, hash := range r.Passwords() {
				w.BulkString(hash)
			}
			field := func(name, value string) {
				w.BulkString(name)
				w.BulkString(value)
			}
			selectors := r.Selectors()
			for i, s := range selectors {
				if i > 0 {
					w.Map(3)
				}
				field("commands", s.Commands)
				field("keys", s.Keys)
				field("channels", s.Channels)
				if i == 0 {
					w.BulkString("selectors")
					w.Array(len(selectors) - 1)
				}
			}
		},
	}
}

func list(srv Server) *command.Spec {
	return &command.Spec{
		Name: "list", Arity: 2, Flags: adminFlags, Since: "6.0.0", Complexity: "O(N) for N users",
		Summary: "Lists the users with their rules, as a file of users has them.",
		Run: func(c *command.Ctx) {
			all := srv.Users().All()
			c.W.Array(len(all))
			for _, u := range all {
				c.W.BulkString(u.Line())
			}
		},
	}
}

func users(srv Server) *command.Spec {
	return &command.Spec{
		Name: "users", Arity: 2, Flags: adminFlags, Since: "6.0.0", Complexity: "O(N) for N users",
		Summary: "Lists the names of the users.",
		Run: func(c *command.Ctx) {
			all := srv.Users().All()
			c.W.Array(len(all))
			for _, u := range all {
				c.W.BulkString(u.Name())
			}
		},
	}
}

func whoAmI() *command.Spec {
	return &command.Spec{
		Name: "whoami", Arity: 2, Flags: plainFlags, Since: "6.0.0", Complexity: "O(1)",
		Summary: "Answers who the connection is logged in as.",
		Run: func(c *command.Ctx) {
			if u := c.Session.(Session).User(); u != nil {
				c.W.BulkString(u.Name())
			} else {
				c.W.Null()
			}
		},
	}
}

func load(srv Server) *command.Spec {
	return fileCommand(srv, "load", "Replaces the users by those of the file that aclfile names.", srv.LoadUsers)
}

func save(srv Server) *command.Spec {
	return fileCommand(srv, "save", "Writes the users to the file that aclfile names.", func(command.Session) *resp.Error { return srv.SaveUsers() })
}

func fileCommand(srv Server, name, summary string, run func(c command.Session) *resp.Error) *command.Spec {
	return &command.Spec{
		Name: name, Arity: 2, Flags: adminFlags, Since: "6.0.0", Complexity: "O(N) for N users", Summary: summary,
		Run: func(c *command.Ctx) {
			err := errNoFile
			if srv.HasUserFile() {
				err = run(c.Session)
			}
			if err != nil {
				c.W.Error(err)
				return
			}
			c.W.OK()
		},
	}
}

var errNoFile = resp.Errorf("ERR", "This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command "+
	"and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.")
