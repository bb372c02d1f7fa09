package strings

import "kevy/internal/command"

func digest() *command.Spec {
	return &command.Spec{
		Name: "digest", Arity: 2, Flags: command.ReadOnly | command.Fast, Category: command.CatString,
		Keys:  command.One(1, command.RO|command.Access),
		Group: "string", Since: "8.4.0", Complexity: "O(N) with N bytes in the string",
		Syntax:  "key",
		Summary: "Answers the XXH3 hash of the key's string in hexadecimal.",
		Run:     runDigest,
	}
}

func runDigest(c *command.Ctx) {
	value, found, err := c.Tx.String(c.Args[1])
	switch {
	case err != nil:
		c.W.Err(err)
	case !found:
		c.W.Null()
	default:
		text := digestOf(value)
		c.W.Bulk(text[:])
	}
}
