package geo

import (
	"cmp"
	"slices"

	"kevy/internal/command"
	"kevy/resp"
	"kevy/shard"
)

// search is what the commands that search are told.
type search struct {
	shape                             shape
	withDist, withHash, withCoord     bool
	order                             int // 1 nearest first, -1 farthest first, 0 as found
	count                             int64
	any                               bool // count of whatever is found first
	store                             bool
	destination                       []byte
	storeDist                         bool
	fromMember, fromPoint, byR, byBox bool
}

// form is how a command is spelled.
type form uint8

const (
	aroundPoint  form = iota // GEORADIUS
	aroundMember             // GEORADIUSBYMEMBER
	named                    // GEOSEARCH: the place and the shape are options
)

var (
	errRadius       = &resp.Error{Code: "ERR", Text: "need numeric radius"}
	errNoRadius     = &resp.Error{Code: "ERR", Text: "radius cannot be negative"}
	errWidth        = &resp.Error{Code: "ERR", Text: "need numeric width"}
	errHeight       = &resp.Error{Code: "ERR", Text: "need numeric height"}
	errNoBox        = &resp.Error{Code: "ERR", Text: "height or width cannot be negative"}
	errNoMember     = &resp.Error{Code: "ERR", Text: "could not decode requested zset member"}
	errCount        = &resp.Error{Code: "ERR", Text: "COUNT must be > 0"}
	errAny          = &resp.Error{Code: "ERR", Text: "the ANY argument requires COUNT argument"}
	errStoreWith    = &resp.Error{Code: "ERR", Text: "STORE option in GEORADIUS is not compatible with WITHDIST, WITHHASH and WITHCOORD options"}
	errStoreWithNew = &resp.Error{Code: "ERR", Text: "GEOSEARCHSTORE is not compatible with WITHDIST, WITHHASH and WITHCOORD options"}
)

// searching is a handler of a command of that form, whose sorted set is argument
// key. stores says that it may store what it finds: where GEORADIUS is told to,
// and GEOSEARCHSTORE always, at its first argument.
func searching(f form, key int, stores bool) command.Handler {
	return func(c *command.Ctx) {
		z, err := c.Tx.ZSet(c.Key(key))
		if err != nil {
			c.W.Err(err)
			return
		}
		var s search
		a := c.Scan(key + 1)
		s.parsePlace(&a, f, z)
		if f == named && stores {
			s.store, s.destination = true, c.Key(1)
		}
		for a.More() {
			s.parseOption(&a, f, z, stores)
		}
		s.check(&a, c, f)
		if err := a.Err(); err != nil {
			c.W.Error(err)
			return
		}
		s.answer(c, z)
	}
}

// parsePlace reads what stands before the options.
func (s *search) parsePlace(a *command.Args, f form, z shard.ZSetView) {
	s.shape.unit = 1
	switch f {
	case aroundPoint:
		s.around(parsePoint(a))
		s.parseRadius(a)
	case aroundMember:
		member := a.Bytes()
		if !z.Exists() {
			// Only the options are looked at: how nothing is answered depends on
			// them.
			a.Bytes()
			a.Bytes()
			return
		}
		s.aroundMember(a, z, member)
		s.parseRadius(a)
	}
}

func (s *search) around(p point) { s.shape.center = originAt(p) }

func (s *search) aroundMember(a *command.Args, z shard.ZSetView, member []byte) {
	score, ok := z.Score(member)
	if !ok {
		a.Fail(errNoMember)
		return
	}
	s.around(pointOf(score))
}

func (s *search) parseRadius(a *command.Args) {
	s.shape.radius = floatOr(a, errRadius)
	if s.shape.radius < 0 {
		a.Fail(errNoRadius)
	}
	s.shape.unit = parseUnit(a)
}

func (s *search) parseBox(a *command.Args) {
	s.shape.box = true
	s.shape.width = floatOr(a, errWidth)
	s.shape.height = floatOr(a, errHeight)
	if s.shape.width < 0 || s.shape.height < 0 {
		a.Fail(errNoBox)
	}
	s.shape.unit = parseUnit(a)
}

func (s *search) parseOption(a *command.Args, f form, z shard.ZSetView, stores bool) {
	// has reports whether the option has n arguments behind it.
	has := func(n int) bool { return a.Len() > n }
	switch {
	case a.Is("WITHDIST"):
		s.withDist = true
	case a.Is("WITHHASH"):
		s.withHash = true
	case a.Is("WITHCOORD"):
		s.withCoord = true
	case a.Is("ANY"):
		s.any = true
	case a.Is("ASC"):
		s.order = 1
	case a.Is("DESC"):
		s.order = -1
	case has(1) && a.Is("COUNT"):
		s.count = a.Int()
		if s.count < 1 {
			a.Fail(errCount)
		}
	case f != named && stores && has(1) && a.Is("STORE"):
		s.store, s.destination, s.storeDist = true, a.Bytes(), false
	case f != named && stores && has(1) && a.Is("STOREDIST"):
		s.store, s.destination, s.storeDist = true, a.Bytes(), true
	case f == named && stores && a.Is("STOREDIST"):
		s.storeDist = true
	case f == named && has(1) && !s.fromPoint && a.Is("FROMMEMBER"):
		s.fromMember = true
		if member := a.Bytes(); z.Exists() {
			s.aroundMember(a, z, member)
		}
	case f == named && has(2) && !s.fromMember && a.Is("FROMLONLAT"):
		s.fromPoint = true
		s.around(parsePoint(a))
	case f == named && has(2) && !s.byBox && a.Is("BYRADIUS"):
		s.byR = true
		s.parseRadius(a)
	case f == named && has(3) && !s.byR && a.Is("BYBOX"):
		s.byBox = true
		s.parseBox(a)
	default:
		a.Fail(command.ErrSyntax)
	}
}

// check sees that the options fit together.
func (s *search) check(a *command.Args, c *command.Ctx, f form) {
	typed := command.CText(c.Args[0])
	switch {
	case s.store && (s.withDist || s.withHash || s.withCoord) && f == named:
		a.Fail(errStoreWithNew)
	case s.store && (s.withDist || s.withHash || s.withCoord):
		a.Fail(errStoreWith)
	case f == named && !s.fromMember && !s.fromPoint:
		a.Fail(resp.Errorf("ERR", "exactly one of FROMMEMBER or FROMLONLAT can be specified for %s", typed))
	case f == named && !s.byR && !s.byBox:
		a.Fail(resp.Errorf("ERR", "exactly one of BYRADIUS and BYBOX can be specified for %s", typed))
	case s.any && s.count == 0:
		a.Fail(errAny)
	}
}

// hit is a member that was found.
type hit struct {
	index  int // among those found
	score  float64
	meters float64 // from the center
}

// answer searches the sorted set and replies with what is found, or stores it.
func (s *search) answer(c *command.Ctx, z shard.ZSetView) {
	var members command.Members
	hits := s.find(z, &members)
	n := len(hits)
	if s.count > 0 {
		n = int(min(int64(n), s.count))
	}
	order := s.order
	if order == 0 && s.count > 0 && !s.any {
		order = 1 // the nearest are wanted
	}
	if order != 0 {
		compare := nearer
		if order < 0 {
			compare = func(a, b hit) int { return nearer(b, a) }
		}
		if n == len(hits) {
			slices.SortFunc(hits, func(a, b hit) int {
				if order := compare(a, b); order != 0 {
					return order
				}
				return cmp.Compare(a.index, b.index)
			})
		} else {
			command.PartialSort(hits, 0, n-1, compare)
		}
	}
	if s.store {
		s.storeHits(c, &members, hits[:n])
		return
	}
	s.reply(c, &members, hits[:n])
}

func nearer(a, b hit) int {
	switch {
	case a.meters > b.meters:
		return 1
	case a.meters < b.meters:
		return -1
	}
	return 0
}

// find returns the members in the shape, cell after cell.
func (s *search) find(z shard.ZSetView, members *command.Members) (hits []hit) {
	if !z.Exists() {
		return nil
	}
	cells := s.shape.cells()
	last := 0 // of those searched
	for i, c := range cells {
		// Where cells are large, several neighbors are the same one.
		if c == (cell{}) || last > 0 && c == cells[last] {
			continue
		}
		if s.enough(len(hits)) {
			break
		}
		last = i
		first, end := c.scores()
		rank := z.SeekScore(first, false)
		z.EachRank(rank, z.Len()-rank, false, func(member []byte, score float64) bool {
			if score >= end {
				return false
			}
			if meters, inside := s.shape.distance(pointOf(score)); inside {
				hits = append(hits, hit{index: members.Len(), score: score, meters: meters})
				members.Append(member)
			}
			return !s.enough(len(hits))
		})
	}
	return hits
}

// enough reports whether so many are all that is asked for.
func (s *search) enough(n int) bool { return s.any && int64(n) >= s.count }

func (s *search) reply(c *command.Ctx, members *command.Members, hits []hit) {
	parts := 1
	for _, with := range []bool{s.withDist, s.withHash, s.withCoord} {
		if with {
			parts++
		}
	}
	c.W.Array(len(hits))
	for i := range hits {
		h := &hits[i]
		if parts > 1 {
			c.W.Array(parts)
		}
		c.W.Bulk(members.At(h.index))
		if s.withDist {
			writeDistance(c.W, h.meters/s.shape.unit)
		}
		if s.withHash {
			c.W.Int(integerOf(h.score))
		}
		if s.withCoord {
			writePoint(c.W, pointOf(h.score))
		}
	}
}

func (s *search) storeHits(c *command.Ctx, members *command.Members, hits []hit) {
	scored := make([]shard.Scored, len(hits))
	for i, h := range hits {
		scored[i] = shard.Scored{Member: members.At(h.index), Score: h.score}
		if s.storeDist {
			scored[i].Score = h.meters / s.shape.unit
		}
	}
	event := "georadiusstore"
	if c.Spec.Name == "geosearchstore" {
		event = c.Spec.Name
	}
	command.StoreZSet(c.Tx, s.destination, scored, event)
	c.W.Int(int64(len(scored)))
}
