package connection

import (
	"slices"
	"strings"

	"kevy/internal/command"
	"kevy/resp"
)

// TrackingOptions are those of CLIENT TRACKING ON.
type TrackingOptions struct {
	BCast, OptIn, OptOut, NoLoop bool
	Redirect                     uint64   // the connection that is told of keys; 0: it itself
	Prefixes                     []string // beside those that it has, which are others
}

// TrackingInfo is what a connection has tracked since.
type TrackingInfo struct {
	TrackingOptions      // all zero unless On
	On, Asked       bool // Asked: by CLIENT CACHING
	Broken          bool // it could not be told of a key: the one in Redirect has ended
}

const (
	// MaxPrefixBytes is how long a prefix of BCAST may be, and MaxPrefixes how many a
	// connection may have.
	MaxPrefixBytes = 1 << 10
	MaxPrefixes    = 1 << 16
)

func clientTracking(srv Server) *command.Spec {
	return &command.Spec{
		Name: "tracking", Arity: -3, Flags: subFlags, Category: command.CatConnection, Since: "6.0.0",
		Complexity: "O(1); O(N) for N prefixes. A write then costs O(L) for the prefixes' lengths L.",
		Syntax:     "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
		Summary:    "Says whether this connection is told when keys change that it has read.",
		Differences: "With BCAST each commit is told by itself, and with NOLOOP not even what a script has changed. A prefix has at most 1024 bytes, and a connection at most 65536 of them; where one of several " +
			"overlaps, none is taken. Keys that have been read are forgotten when the last connection ends its tracking. Their table has at most 512 MiB. " +
			"What a transaction tells is decided by what is on at its end. A flush is null in the protocol of the connection that is told, not of the one that tracks.",
		Run: func(c *command.Ctx) { runTracking(c, srv) },
	}
}

var (
	errTwoRedirects  = resp.Errorf("ERR", "A client can only redirect to a single other client")
	errNoRedirect    = resp.Errorf("ERR", "The client ID you want redirect to does not exist")
	errPrefixNoBCast = resp.Errorf("ERR", "PREFIX option requires BCAST mode to be enabled")
	errSwitchBCast   = resp.Errorf("ERR", "You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.")
	errBCastOpt      = resp.Errorf("ERR", "OPTIN and OPTOUT are not compatible with BCAST")
	errOptInAndOut   = resp.Errorf("ERR", "You can't specify both OPTIN mode and OPTOUT mode")
	errSwitchOpt     = resp.Errorf("ERR", "You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.")
	errNotTracking   = resp.Errorf("ERR", "CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled")
	errYesNeedsOptIn = resp.Errorf("ERR", "CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.")
	errNoNeedsOptOut = resp.Errorf("ERR", "CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.")
	errLongPrefix    = resp.Errorf("ERR", "a prefix has at most %d bytes", MaxPrefixBytes)
	errManyPrefixes  = resp.Errorf("ERR", "a connection has at most %d prefixes", MaxPrefixes)
)

func runTracking(c *command.Ctx, srv Server) {
	o, err := parseTracking(c, srv)
	if err != nil {
		c.W.Error(err)
		return
	}
	switch status := c.Args[2]; {
	case command.EqualFold(status, "ON"):
		now := conn(c).Tracking()
		if err := fitTracking(&o, &now); err != nil {
			c.W.Error(err)
			return
		}
		conn(c).Track(o)
	case command.EqualFold(status, "OFF"):
		conn(c).Untrack()
	default:
		c.W.Error(command.ErrSyntax)
		return
	}
	c.W.OK()
}

func parseTracking(c *command.Ctx, srv Server) (o TrackingOptions, err *resp.Error) {
	for a := c.Scan(3); a.More(); {
		switch option := a.Bytes(); {
		case command.EqualFold(option, "REDIRECT") && a.More():
			if o.Redirect != 0 {
				return o, errTwoRedirects
			}
			id := a.Int()
			if err := a.Err(); err != nil {
				return o, err
			}
			if id <= 0 || !srv.HasClient(uint64(id)) {
				return o, errNoRedirect
			}
			o.Redirect = uint64(id)
		case command.EqualFold(option, "BCAST"):
			o.BCast = true
		case command.EqualFold(option, "OPTIN"):
			o.OptIn = true
		case command.EqualFold(option, "OPTOUT"):
			o.OptOut = true
		case command.EqualFold(option, "NOLOOP"):
			o.NoLoop = true
		case command.EqualFold(option, "PREFIX") && a.More():
			o.Prefixes = append(o.Prefixes, string(a.Bytes()))
		default:
			return o, command.ErrSyntax
		}
	}
	return o, nil
}

// fitTracking refuses options that contradict each other or what the connection tracks
// already.
func fitTracking(o *TrackingOptions, now *TrackingInfo) *resp.Error {
	switch {
	case !o.BCast && len(o.Prefixes) > 0:
		return errPrefixNoBCast
	case now.On && now.BCast != o.BCast:
		return errSwitchBCast
	case o.BCast && (o.OptIn || o.OptOut):
		return errBCastOpt
	case o.OptIn && o.OptOut:
		return errOptInAndOut
	case o.OptIn && now.OptOut, o.OptOut && now.OptIn:
		return errSwitchOpt
	case !o.BCast:
		return nil
	case len(o.Prefixes) == 0:
		if !slices.Contains(now.Prefixes, "") {
			o.Prefixes = []string{""}
		}
		return nil
	}
	return fitPrefixes(o.Prefixes, now.Prefixes)
}

func fitPrefixes(more, has []string) *resp.Error {
	for i, p := range more {
		for _, other := range has {
			if overlap(p, other) {
				return resp.Errorf("ERR", "Prefix '%s' overlaps with an existing prefix '%s'. Prefixes for a single client must not overlap.",
					command.CText([]byte(p)), command.CText([]byte(other)))
			}
		}
		for _, other := range more[i+1:] {
			if overlap(p, other) {
				return resp.Errorf("ERR", "Prefix '%s' overlaps with another provided prefix '%s'. Prefixes for a single client must not overlap.",
					command.CText([]byte(p)), command.CText([]byte(other)))
			}
		}
		if len(p) > MaxPrefixBytes {
			return errLongPrefix
		}
	}
	if len(has)+len(more) > MaxPrefixes {
		return errManyPrefixes
	}
	return nil
}

// overlap reports whether a key may begin with both.
func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

func clientCaching() *command.Spec {
	return &command.Spec{
		Name: "caching", Arity: 3, Flags: subFlags, Category: command.CatConnection, Since: "6.0.0", Complexity: "O(1)",
		Syntax:  "<YES | NO>",
		Summary: "Says of the next command's keys whether they are tracked, with OPTIN or OPTOUT.",
		Run: func(c *command.Ctx) {
			now := conn(c).Tracking()
			yes := command.EqualFold(c.Args[2], "YES")
			switch {
			case !now.On:
				c.W.Error(errNotTracking)
			case !yes && !command.EqualFold(c.Args[2], "NO"):
				c.W.Error(command.ErrSyntax)
			case yes && !now.OptIn:
				c.W.Error(errYesNeedsOptIn)
			case !yes && !now.OptOut:
				c.W.Error(errNoNeedsOptOut)
			default:
				conn(c).AskCaching()
				c.W.OK()
			}
		},
	}
}

func clientGetRedir() *command.Spec {
	return &command.Spec{
		Name: "getredir", Arity: 2, Flags: subFlags, Category: command.CatConnection, Since: "6.0.0", Complexity: "O(1)",
		Summary: "Answers the number of the connection that is told of this one's keys: 0 for itself, -1 without tracking.",
		Run:     func(c *command.Ctx) { now := conn(c).Tracking(); c.W.Int(now.redirect()) },
	}
}

// redirect is the connection's number as clients are shown it.
func (now *TrackingInfo) redirect() int64 {
	if !now.On {
		return -1
	}
	return int64(now.Redirect)
}

func clientTrackingInfo() *command.Spec {
	return &command.Spec{
		Name: "trackinginfo", Arity: 2, Flags: subFlags, Category: command.CatConnection, Since: "6.2.0", Complexity: "O(1)",
		Summary: "Tells what CLIENT TRACKING has made of this connection.",
		Run: func(c *command.Ctx) {
			now := conn(c).Tracking()
			flags := now.flags()
			c.W.Map(3)
			c.W.BulkString("flags")
			c.W.Set(len(flags))
			for _, f := range flags {
				c.W.BulkString(f)
			}
			c.W.BulkString("redirect")
			c.W.Int(now.redirect())
			c.W.BulkString("prefixes")
			c.W.Array(len(now.Prefixes))
			for _, p := range now.Prefixes {
				c.W.BulkString(p)
			}
		},
	}
}

// flags are the words of CLIENT TRACKINGINFO, in Redis's order.
func (now *TrackingInfo) flags() []string {
	if !now.On {
		return []string{"off"}
	}
	flags := []string{"on"}
	for _, f := range []struct {
		is   bool
		word string
	}{
		{now.BCast, "bcast"}, {now.OptIn, "optin"}, {now.OptIn && now.Asked, "caching-yes"}, {now.OptOut, "optout"},
		{now.OptOut && now.Asked, "caching-no"}, {now.NoLoop, "noloop"}, {now.Broken, "broken_redirect"},
	} {
		if f.is {
			flags = append(flags, f.word)
		}
	}
	return flags
}
