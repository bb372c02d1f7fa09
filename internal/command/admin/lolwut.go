package admin

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"kevy/internal/command"
)

// The size of LOLWUT's picture, unless arguments say otherwise, and at most.
const (
	lolwutColumns, lolwutRows       = 64, 24
	maxLolwutColumns, maxLolwutRows = 256, 128
)

func lolwut(srv Server) *command.Spec {
	return &command.Spec{
		Name: "lolwut", Arity: -1, Flags: command.ReadOnly | command.Fast | command.Unlocked, Group: "server", Since: "5.0.0",
		Complexity:  "O(N) for N places of the picture",
		Syntax:      "[VERSION version [columns [rows]]]",
		Summary:     "Draws a picture and tells the version.",
		Differences: "The picture is our own, whatever the VERSION; only 5 and 6 take a size.",
		Run:         func(c *command.Ctx) { runLolwut(c, srv.Version()) },
	}
}

func runLolwut(c *command.Ctx, version string) {
	a := c.Scan(1)
	numbers := 0 // that the version takes; others look at no argument
	if len(c.Args) > 2 && a.Is("VERSION") {
		switch a.Int() {
		case 5:
			numbers = 3
		case 6:
			numbers = 2
		}
	}
	size := [3]int64{lolwutColumns, lolwutRows}
	for i := range numbers {
		if a.More() {
			size[i] = a.Int()
		}
	}
	columns, rows := int(min(max(size[0], 1), maxLolwutColumns)), int(min(max(size[1], 1), maxLolwutRows))
	if err := a.Err(); err != nil {
		c.W.Error(err)
		return
	}
	number := uint8(rand.Uint32())
	c.W.Verbatim("txt", rug(number, columns, rows)+
		fmt.Sprintf("\nRule %d, woven row by row from the one above. Redis ver. %s\n", number, version))
}

// rug draws a cellular automaton: whether a place is filled, a rule says by the three
// above it, as the bits of its number do. The first row is of chance, and the edges meet.
func rug(rule uint8, columns, rows int) string {
	const glyphs = " ▀▄█" // the upper half, the lower half, both
	row := make([]bool, columns)
	for i := range row {
		row[i] = rand.IntN(2) == 0
	}
	next := func(row []bool) []bool {
		below := make([]bool, columns)
		for i := range row {
			above := 0
			for d := -1; d <= 1; d++ {
				above <<= 1
				if row[(i+d+columns)%columns] {
					above |= 1
				}
			}
			below[i] = rule>>above&1 == 1
		}
		return below
	}
	var b strings.Builder
	shapes := []rune(glyphs)
	for range rows {
		lower := next(row)
		for i := range row {
			n := 0
			if row[i] {
				n |= 1
			}
			if lower[i] {
				n |= 2
			}
			b.WriteRune(shapes[n])
		}
		b.WriteByte('\n')
		row = next(lower)
	}
	return b.String()
}
