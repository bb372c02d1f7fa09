package admin

import (
	"math"
	"testing"
)

func TestLeadingInt(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "x": 0, "7": 7, " \t\n\v\f\r7": 7, "-7x": -7, "+7": 7, "+-7": 0, "007": 7, "1e3": 1, "- 7": 0,
		"2147483647": math.MaxInt32, "2147483648": math.MinInt32, "4294967298": 2, "9223372036854775807": -1,
		"99999999999999999999": -1, "-9223372036854775808": 0, "-9223372036854775809": 0, "-2147483648": math.MinInt32,
	} {
		if got := leadingInt([]byte(text)); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}
