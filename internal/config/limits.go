package config

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
)

// ClientClass groups connections by what they are held to.
type ClientClass int

// The classes of client-output-buffer-limit, in the order in which it lists them.
const (
	ClientNormal ClientClass = iota
	ClientReplica
	ClientPubSub
	clientClasses
)

// clientClassNames are as CONFIG GET spells them; "replica" is accepted too.
var clientClassNames = [clientClasses]string{"normal", "slave", "pubsub"}

// OutputLimit bounds what may wait in a connection for a client that does not
// read: the connection ends above HardBytes, and when it has been above
// SoftBytes for SoftSeconds. 0 is no bound.
type OutputLimit struct {
	HardBytes, SoftBytes int64
	SoftSeconds          int64
}

// OutputLimits is the setting client-output-buffer-limit.
type OutputLimits struct {
	row
	current atomic.Pointer[[clientClasses]OutputLimit]
}

// Load returns the limit of a class.
func (o *OutputLimits) Load(class ClientClass) OutputLimit { return o.current.Load()[class] }

func (o *OutputLimits) load() any { return *o.current.Load() }
func (o *OutputLimits) store(v any) {
	limits := v.([clientClasses]OutputLimit)
	o.current.Store(&limits)
}

func (o *OutputLimits) format(v any) string {
	var words []string
	for class, l := range v.([clientClasses]OutputLimit) {
		words = append(words, clientClassNames[class],
			strconv.FormatInt(l.HardBytes, 10), strconv.FormatInt(l.SoftBytes, 10), strconv.FormatInt(l.SoftSeconds, 10))
	}
	return strings.Join(words, " ")
}

// parse changes the classes that the text names and keeps the others.
func (o *OutputLimits) parse(text string, current any, _ bool) (any, error) {
	words := splitWords(text)
	if len(words)%4 != 0 {
		return nil, refusal("Wrong number of arguments in buffer limit configuration.")
	}
	limits := current.([clientClasses]OutputLimit)
	for ; len(words) > 0; words = words[4:] {
		class, ok := parseClientClass(words[0])
		if !ok {
			return nil, refusal("Invalid client class specified in buffer limit configuration.")
		}
		hard, hardErr := ParseMemory(words[1])
		soft, softErr := ParseMemory(words[2])
		seconds, secondsErr := strconv.ParseInt(words[3], 10, 64)
		if hardErr != nil || softErr != nil || secondsErr != nil ||
			hard > math.MaxInt64 || soft > math.MaxInt64 || seconds < 0 {
			return nil, refusal("Error in hard, soft or soft_seconds setting in buffer limit configuration.")
		}
		limits[class] = OutputLimit{HardBytes: int64(hard), SoftBytes: int64(soft), SoftSeconds: seconds}
	}
	return limits, nil
}

func (o *OutputLimits) allowed() string {
	return "groups of: class (normal, replica, pubsub), hard bytes, soft bytes, soft seconds"
}

func parseClientClass(word string) (ClientClass, bool) {
	if strings.EqualFold(word, "replica") {
		return ClientReplica, true
	}
	for class, name := range clientClassNames {
		if strings.EqualFold(word, name) {
			return ClientClass(class), true
		}
	}
	return 0, false
}

// ClientsLimit returns maxmemory-clients in bytes, 0 for no bound: a percentage is one of
// maxmemory, and none where that is not bounded.
func (c *Config) ClientsLimit() int64 {
	text := c.MaxMemoryClients.Load()
	if digits, percent := strings.CutSuffix(text, "%"); percent {
		n, _ := strconv.ParseInt(digits, 10, 64) // it was checked
		return int64(float64(c.MaxMemoryBytes.Load()) / 100 * float64(n))
	}
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}
