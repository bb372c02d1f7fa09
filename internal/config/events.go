package config

import "strings"

// canonicalEvents brings a notify-keyspace-events text into the order in which
// Redis shows it. A stands for all letters of eventTypes.
func canonicalEvents(text string) (string, error) {
	const eventTypes, others = "g$lshzxetd", "nKEm"
	has := func(letter rune) bool {
		return strings.ContainsRune(text, letter) ||
			strings.ContainsRune(text, 'A') && strings.ContainsRune(eventTypes, letter)
	}
	for _, letter := range text {
		if letter != 'A' && !strings.ContainsRune(eventTypes+others, letter) {
			return "", refusal("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.")
		}
	}
	var types, rest strings.Builder
	for _, letter := range eventTypes {
		if has(letter) {
			types.WriteRune(letter)
		}
	}
	for _, letter := range others {
		if has(letter) {
			rest.WriteRune(letter)
		}
	}
	if types.Len() == len(eventTypes) {
		return "A" + rest.String(), nil
	}
	return types.String() + rest.String(), nil
}
