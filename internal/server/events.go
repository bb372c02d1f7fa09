package server

import (
	"strconv"
	"sync"

	"kevy/internal/pubsub"
	"kevy/shard"
)

// Keyspace events are noted by the commands as they run, and published behind their
// commit while its shards are locked: who has subscribed gets those of one key in the
// order of its changes. They wait in the subscribers' queues, as all messages, until
// what they show is in the log.

// events is what publishing them takes.
type events struct {
	publishers sync.Pool // of *eventPublisher

	mu   sync.Mutex
	slow []*pubsub.Subscriber // to be ended; guarded by mu
}

// eventPublisher publishes the events of one commit.
type eventPublisher struct {
	by      pubsub.Publisher
	channel []byte
	payload []byte
}

// eventLetters are the letters of notify-keyspace-events.
var eventLetters = map[rune]shard.Classes{
	'K': shard.ByKey, 'E': shard.ByEvent,
	'g': shard.OfGeneric, '$': shard.OfStrings, 'l': shard.OfLists, 's': shard.OfSets, 'h': shard.OfHashes, 'z': shard.OfZSets,
	'x': shard.OfExpired, 'e': shard.OfEvicted, 't': shard.OfStreams, 'd': shard.OfModules, 'n': shard.OfNewKeys, 'm': shard.OfKeyMisses,
	'A': shard.OfGeneric | shard.OfStrings | shard.OfLists | shard.OfSets | shard.OfHashes | shard.OfZSets |
		shard.OfExpired | shard.OfEvicted | shard.OfStreams | shard.OfModules,
}

// eventClasses reads notify-keyspace-events.
func eventClasses(text string) (c shard.Classes) {
	for _, letter := range text {
		c |= eventLetters[letter]
	}
	return c
}

// tell tells others what a Tx has noted, which shows what is in the log up to lsn;
// the shards are locked.
func (s *Server) tell(tx *shard.Tx, lsn uint64) {
	if events := tx.Events(); len(events) > 0 {
		by, _ := tx.By.(*client)
		s.publishEvents(by, events, lsn)
	}
	if changes := tx.Changes(); len(changes) > 0 {
		who := tx.By
		if tx.Serves != nil {
			who = tx.Serves
		}
		by, _ := who.(*client)
		s.tracking.tell(by, changes, lsn)
	}
}

// publishEvents publishes events that commands of a client have caused, or, if by is
// nil, the store itself. What the client has published before comes before them.
func (s *Server) publishEvents(by *client, events []shard.Event, lsn uint64) {
	said := by != nil && by.pub != nil
	if said {
		s.hub.Hand(&by.pub.by)
	}
	if s.hub.Empty() {
		return
	}
	p, _ := s.events.publishers.Get().(*eventPublisher)
	if p == nil {
		p = new(eventPublisher)
	}
	classes := s.store.Set().EventClasses()
	for i := range events {
		if said {
			by.publishLater(&p.by, i, lsn)
		}
		p.publish(s.hub, &events[i], classes, lsn)
	}
	if said {
		// The rest too, ahead of the events of whom this commit serves.
		by.publishLater(&p.by, len(events), lsn)
	}
	s.hub.Hand(&p.by)
	s.events.noteSlow(&p.by)
	s.events.publishers.Put(p)
}

// noteSlow makes endSlow end those who have read too slowly for what p has published.
func (e *events) noteSlow(p *pubsub.Publisher) {
	e.mu.Lock()
	e.slow = p.TakeSlow(e.slow)
	e.mu.Unlock()
}

func (p *eventPublisher) publish(hub *pubsub.Hub, e *shard.Event, classes shard.Classes, lsn uint64) {
	if classes&shard.ByKey != 0 {
		p.channel = append(append(append(p.channel[:0], "__keyspace@"...), strconv.Itoa(e.DB)...), "__:"...)
		p.channel = append(p.channel, e.Key...)
		p.payload = append(p.payload[:0], e.Name...)
		hub.Publish(&p.by, pubsub.Channels, p.channel, p.payload, lsn, true, nil)
	}
	if classes&shard.ByEvent != 0 {
		p.channel = append(append(append(p.channel[:0], "__keyevent@"...), strconv.Itoa(e.DB)...), "__:"...)
		p.channel = append(p.channel, e.Name...)
		hub.Publish(&p.by, pubsub.Channels, p.channel, e.Key, lsn, true, nil)
	}
}

// endSlow ends the subscribers who have read too slowly for events: nobody could
// while shards were locked.
func (e *events) endSlow() {
	e.mu.Lock()
	slow := e.slow
	e.slow = nil
	e.mu.Unlock()
	for _, s := range slow {
		s.End()
	}
}
