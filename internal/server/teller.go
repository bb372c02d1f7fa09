package server

import "kevy/internal/pubsub"

// teller sends what one commit has made invalid.
type teller struct {
	by  pubsub.Publisher
	own *tracker // of who made the changes, nil: it has none
	lsn uint64
	key [1][]byte
}

// letter is what several are sent: keys, or, if there are none, that all keys may have
// changed.
type letter struct {
	keys [][]byte
	// plain and asMessage are the two forms, nil while nobody needed them.
	plain, asMessage *pubsub.Message
}

func (t *tracking) teller(lsn uint64) *teller {
	e, _ := t.tellers.Get().(*teller)
	if e == nil {
		e = new(teller)
	}
	e.lsn = lsn
	return e
}

// done wakes those who have got something.
func (e *teller) done(t *tracking) {
	e.by.Wake()
	t.srv.events.noteSlow(&e.by)
	e.own, e.key[0] = nil, nil
	t.tellers.Put(e)
}

// send sends a letter to who a tracker has named in its terms, which may be nil by now. If
// atOnce, what it has caused itself stands right behind the reply of its command, else
// behind all that are gathered.
func (e *teller) send(w *tracker, how *terms, l *letter, atOnce bool) {
	self := w.self.Load()
	if self == nil || how == nil {
		return // it ends right now
	}
	own := w == e.own
	if own && atOnce && how.noOwn && l.keys != nil {
		return
	}
	var m *pubsub.Message
	to := how.to
	if to != self && to.gone.Load() {
		how.redirectBroken.Store(true)
		m, to = pubsub.NewBrokenRedirection(how.redirect), self
	} else {
		m = l.message(how.redirect != 0 && to.channels.Any(), e.lsn)
	}
	switch {
	case own && to == self && atOnce:
		w.pending = append(w.pending, m)
	case own && to == self:
		w.hold()
		fallthrough
	default:
		e.by.Queue(to.channels, m)
	}
}

func (l *letter) message(asMessage bool, lsn uint64) *pubsub.Message {
	form := &l.plain
	if asMessage {
		form = &l.asMessage
	}
	if *form == nil {
		*form = pubsub.NewInvalidation(l.keys, lsn, asMessage)
	}
	return *form
}
