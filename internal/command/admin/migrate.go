package admin

import (
	"time"

	"kevy/internal/command"
	"kevy/resp"
)

// Migration is what MIGRATE asks for.
type Migration struct {
	Host, Port         string
	Username, Password []byte // nil: none
	Keys               [][]byte
	DB                 int64
	Timeout            time.Duration // of each step
	Copy, Replace      bool
}

const (
	// migrateOptions is where the options of MIGRATE begin.
	migrateOptions = 6
	// migrateKey is where its one key stands.
	migrateKey = 3
	// migrateTimeout is what a timeout of 0 stands for, and maxMigrateTimeout the longest.
	migrateTimeout, maxMigrateTimeout = time.Second, time.Hour
)

func migrate(srv Server) *command.Spec {
	one := command.Range(migrateKey, 0, 1, command.RW|command.Access|command.Delete)
	one.Find = migrateKeys
	several := command.KeySpec{
		Flags: command.RW | command.Access | command.Delete | command.Incomplete, Keyword: "KEYS", StartFrom: -2, Last: -1, Step: 1,
		Find: func([][]byte) []int { return nil }, // migrateKeys has found them
	}
	return &command.Spec{
		Name: "migrate", Arity: -6, Flags: command.Write | command.Unlocked, Category: command.CatKeyspace | command.CatDangerous,
		Keys: []command.KeySpec{one, several}, Tips: []string{"nondeterministic_output"},
		Group: "generic", Since: "2.6.0", Complexity: "O(N) for N bytes of values",
		Syntax:  `host port <key | ""> destination-db timeout [COPY] [REPLACE] [<AUTH password | AUTH2 username password>] [KEYS key [key ...]]`,
		Summary: "Moves keys to another server.",
		Differences: "No lock is held while the other server is waited for: a key that is changed meanwhile stays here, as it is by then, and the answer is an error. " +
			"Refused inside transactions and scripts. Each call makes a connection of its own, without TLS; a timeout is an hour at most.",
		Secrets: migrateSecrets,
		Run:     func(c *command.Ctx) { runMigrate(c, srv) },
	}
}

// migrateKeys returns where the keys stand: behind KEYS if there is that option, and the
// place of the one key is empty. As in Redis there are none where both are given, which
// is an error, and nothing is behind a KEYS that ends the command.
func migrateKeys(args [][]byte) []int {
	if len(args) <= migrateKey {
		return nil
	}
	for i := migrateOptions; i < len(args)-1; i++ {
		switch {
		case command.EqualFold(args[i], "KEYS"):
			var at []int
			for j := i + 1; j < len(args) && len(args[migrateKey]) == 0; j++ {
				at = append(at, j)
			}
			return at
		case command.EqualFold(args[i], "AUTH"):
			i++
		case command.EqualFold(args[i], "AUTH2"):
			i += 2
		}
	}
	return []int{migrateKey}
}

// migrateSecrets hides the names and passwords of AUTH and AUTH2.
func migrateSecrets(args [][]byte, hide func(i int)) {
	for i := migrateOptions; i < len(args); i++ {
		switch {
		case command.EqualFold(args[i], "KEYS"):
			return
		case command.EqualFold(args[i], "AUTH"):
			i++
			hide(i)
		case command.EqualFold(args[i], "AUTH2"):
			hide(i + 1)
			hide(i + 2)
			i += 2
		}
	}
}

var (
	errMigrateKeys  = &resp.Error{Code: "ERR", Text: "When using MIGRATE KEYS option, the key argument must be set to the empty string"}
	errMigrateMulti = &resp.Error{Code: "ERR", Text: "a transaction or a script cannot MIGRATE: all others would wait for the other server"}
)

func runMigrate(c *command.Ctx, srv Server) {
	m, err := parseMigrate(c)
	if err != nil {
		c.W.Error(err)
		return
	}
	if session(c).InMulti() {
		c.W.Error(errMigrateMulti)
		return
	}
	srv.Migrate(c, m)
}

func parseMigrate(c *command.Ctx) (m Migration, err *resp.Error) {
	m.Host, m.Port = string(c.Args[1]), string(c.Args[2])
	m.Keys = c.Args[migrateKey : migrateKey+1]
	a := c.Scan(migrateOptions)
	for a.More() {
		switch {
		case a.Is("COPY"):
			m.Copy = true
		case a.Is("REPLACE"):
			m.Replace = true
		case a.Is("AUTH"):
			m.Username, m.Password = nil, a.Bytes()
		case a.Is("AUTH2"):
			m.Username, m.Password = a.Bytes(), a.Bytes()
		case a.Is("KEYS"):
			if len(c.Args[migrateKey]) > 0 {
				a.Fail(errMigrateKeys)
			}
			m.Keys = a.Rest()
		default:
			a.Fail(command.ErrSyntax)
		}
	}
	if err := a.Err(); err != nil {
		return m, err
	}
	ms, ok := command.ParseInt(c.Args[5])
	if ok {
		m.DB, ok = command.ParseInt(c.Args[4])
	}
	if !ok {
		return m, command.ErrNotInt
	}
	m.Timeout = migrateTimeout
	if ms > 0 {
		m.Timeout = time.Duration(min(ms, maxMigrateTimeout.Milliseconds())) * time.Millisecond
	}
	return m, nil
}
