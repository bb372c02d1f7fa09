package main

import (
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"kevy/changes"
	"kevy/internal/changejson"
	"kevy/resp"
)

const infoLong = `
Shows the state of a stream: where its history begins and ends, what it takes,
its past generations, and who follows it, with their lag.`

const infoExamples = `  kevy-server changes info
  kevy-server changes info 3 --json
  kevy-server changes info --json | jq .subscribers`

func infoCommand(c *connection, stdout io.Writer) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "info [STREAM] [--json]",
		Short:   "Show where a stream is, and who follows it",
		Long:    infoLong,
		Example: infoExamples,
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			conn, err := c.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			stream := changes.All
			if len(args) > 0 {
				stream = strings.ToUpper(args[0])
			}
			r, err := conn.Call("CHANGES", "INFO", stream)
			if err != nil {
				return c.explain(err)
			}
			return writeReply(stdout, r, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "answer as JSON")
	return cmd
}

const holdLong = `
Holds are positions that the server keeps for consumers: it keeps the history
from each one's cursor on, across restarts, up to feed-hold-max-bytes.`

const holdExamples = `  kevy-server changes hold set search ALL tail          from now on
  kevy-server changes hold set search ALL 3766674953956864:74 --epoch 2
  kevy-server changes hold list --json
  kevy-server changes hold del search`

func holdCommand(c *connection, stdout io.Writer) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "hold",
		Short:   "Keep, let go and list positions of consumers",
		Long:    holdLong,
		Example: holdExamples,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("there is no %q; there are set, del and list", "hold "+args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	call := func(cmd *cobra.Command, done string, args ...string) error {
		conn, err := c.dial(cmd.Context())
		if err != nil {
			return err
		}
		defer conn.Close()
		r, err := conn.Call(append([]string{"CHANGES", "HOLD"}, args...)...)
		if err != nil {
			return c.explain(err)
		}
		if r.Type == ':' && r.Int == 0 {
			return fmt.Errorf("there is no such hold as %q; see kevy-server changes hold list", args[1])
		}
		fmt.Fprintln(stdout, done)
		return nil
	}
	var epoch int64
	set := &cobra.Command{
		Use:   "set NAME STREAM CURSOR [--epoch N]",
		Short: "Make a hold, or move it",
		Long: "Makes a hold at a cursor (generation:offset, tail or oldest), or moves it there.\n" +
			"STREAM is ALL or the number of a shard; cursors stand in what consumers have\n" +
			"read, and in kevy-server changes info. A lower epoch than the last one is\n" +
			"refused, so that a consumer that was replaced does no harm.",
		Args: cobra.ExactArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := changes.ParseCursor(args[2])
			if which := strings.ToUpper(args[2]); which == "TAIL" || which == "OLDEST" {
				at, err = c.bound(cmd.Context(), which, strings.ToUpper(args[1]))
			}
			if err != nil {
				return err
			}
			words := []string{"SET", args[0], strings.ToUpper(args[1]), strconv.FormatUint(at.Generation, 10), strconv.FormatUint(at.Offset, 10)}
			if cmd.Flags().Changed("epoch") {
				words = append(words, "EPOCH", strconv.FormatInt(epoch, 10))
			}
			return call(cmd, fmt.Sprintf("%s holds stream %s from %v", args[0], strings.ToUpper(args[1]), at), words...)
		},
	}
	set.Flags().Int64Var(&epoch, "epoch", 0, "number of the consumer's incarnation")
	del := &cobra.Command{
		Use:   "del NAME [STREAM]",
		Short: "Let a hold go",
		Long:  "Lets a hold go, in one stream or in all.",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			words := append([]string{"DEL"}, args...)
			if len(args) > 1 {
				words[2] = strings.ToUpper(words[2])
			}
			return call(cmd, args[0]+" holds nothing any more", words...)
		},
	}
	var asJSON bool
	list := &cobra.Command{
		Use:   "list [--json]",
		Short: "List the holds, with their lag",
		Long:  "Lists the holds, with their lag in frames, bytes and seconds.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			conn, err := c.dial(cmd.Context())
			if err != nil {
				return err
			}
			defer conn.Close()
			r, err := conn.Call("CHANGES", "HOLD", "LIST")
			if err != nil {
				return c.explain(err)
			}
			return writeReply(stdout, r, asJSON)
		},
	}
	list.Flags().BoolVar(&asJSON, "json", false, "answer as JSON")
	cmd.AddCommand(set, del, list)
	return cmd
}

// writeReply writes a reply of maps and lists as JSON, or as text for people.
func writeReply(out io.Writer, r resp.Reply, asJSON bool) error {
	if asJSON {
		_, err := out.Write(append(appendJSON(nil, r, "\n"), '\n'))
		return err
	}
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	if r.Type == '%' {
		writeMap(w, r)
	} else {
		writeTable(w, r, "")
	}
	return w.Flush()
}

// writeMap writes the fields of a map: values first, then lists as tables.
func writeMap(w io.Writer, r resp.Reply) {
	for i := 0; i+1 < len(r.Elems); i += 2 {
		if v := r.Elems[i+1]; !isTable(v) {
			fmt.Fprintf(w, "%s\t%s\n", r.Elems[i].Str, cell(v))
		}
	}
	for i := 0; i+1 < len(r.Elems); i += 2 {
		if v := r.Elems[i+1]; isTable(v) {
			fmt.Fprintf(w, "\n%s (%d)\n", r.Elems[i].Str, len(v.Elems))
			writeTable(w, v, "  ")
		}
	}
}

func isTable(r resp.Reply) bool { return len(r.Elems) > 0 && r.Elems[0].Type == '%' && r.Type != '%' }

// writeTable writes a list of maps, each of them a row.
func writeTable(w io.Writer, r resp.Reply, indent string) {
	if len(r.Elems) == 0 {
		fmt.Fprintf(w, "%snone\n", indent)
		return
	}
	if !isTable(r) {
		for _, e := range r.Elems {
			fmt.Fprintf(w, "%s%s\n", indent, cell(e))
		}
		return
	}
	var names []string
	for i := 0; i+1 < len(r.Elems[0].Elems); i += 2 {
		names = append(names, string(r.Elems[0].Elems[i].Str))
	}
	fmt.Fprintf(w, "%s%s\n", indent, strings.Join(names, "\t"))
	for _, row := range r.Elems {
		cells := make([]string, len(names))
		for n, name := range names {
			for i := 0; i+1 < len(row.Elems); i += 2 {
				if string(row.Elems[i].Str) == name {
					cells[n] = cell(row.Elems[i+1])
				}
			}
		}
		fmt.Fprintf(w, "%s%s\n", indent, strings.Join(cells, "\t"))
	}
}

// cell writes a value on its own. Two numbers are a cursor.
func cell(r resp.Reply) string {
	switch {
	case len(r.Elems) == 2 && r.Elems[0].Type == ':' && r.Elems[1].Type == ':':
		return fmt.Sprintf("%d:%d", r.Elems[0].Int, r.Elems[1].Int)
	case r.Type == ':':
		return strconv.FormatInt(r.Int, 10)
	case r.Null:
		return "-"
	case r.Elems != nil || r.Type == '*' || r.Type == '%' || r.Type == '~':
		cells := make([]string, len(r.Elems))
		for i, e := range r.Elems {
			cells[i] = cell(e)
		}
		if len(cells) == 0 {
			return "none"
		}
		return strings.Join(cells, " ")
	}
	return string(r.Str)
}

// appendJSON appends a reply as JSON, a field of a map a line. What is not
// UTF-8 becomes base64 with "base64:" before it.
func appendJSON(dst []byte, r resp.Reply, newline string) []byte {
	inner := newline + "  "
	switch r.Type {
	case '%':
		dst = append(dst, '{')
		for i := 0; i+1 < len(r.Elems); i += 2 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, inner...)
			dst = append(appendText(dst, r.Elems[i].Str), ": "...)
			dst = appendJSON(dst, r.Elems[i+1], inner)
		}
		if len(r.Elems) > 0 {
			dst = append(dst, newline...)
		}
		return append(dst, '}')
	case '*', '~', '>':
		if r.Null {
			return append(dst, "null"...)
		}
		dst = append(dst, '[')
		for i, e := range r.Elems {
			if i > 0 {
				dst = append(dst, ", "...)
			}
			if e.Type == '%' {
				dst = append(dst, inner...)
			}
			dst = appendJSON(dst, e, inner)
		}
		if len(r.Elems) > 0 && r.Elems[0].Type == '%' {
			dst = append(dst, newline...)
		}
		return append(dst, ']')
	case ':':
		return strconv.AppendInt(dst, r.Int, 10)
	case '#':
		return strconv.AppendBool(dst, r.Int == 1)
	case ',':
		if text := string(r.Str); !strings.ContainsAny(text, "inf nan") {
			return append(dst, text...)
		}
	}
	if r.Null {
		return append(dst, "null"...)
	}
	return appendText(dst, r.Str)
}

func appendText(dst, text []byte) []byte {
	if !utf8.Valid(text) {
		return changejson.AppendString(dst, "base64:"+base64.StdEncoding.EncodeToString(text))
	}
	return changejson.AppendString(dst, text)
}
