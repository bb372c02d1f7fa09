package resp

import "testing"

func TestPairs(t *testing.T) {
	for proto, want := range map[int]string{
		2: "*0\r\n*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
		3: "*0\r\n*2\r\n*2\r\n:1\r\n:2\r\n*2\r\n:3\r\n:4\r\n",
	} {
		w := NewWriter(proto)
		w.Pairs(0)
		w.Pairs(2)
		for i := range 2 {
			w.Pair()
			w.Int(int64(2*i + 1))
			w.Int(int64(2*i + 2))
		}
		if got := string(w.Bytes()); got != want {
			t.Errorf("RESP%d: %q, want %q", proto, got, want)
		}
	}
}

func TestMapEntries(t *testing.T) {
	for proto, want := range map[int]string{
		2: "*2\r\n*2\r\n:1\r\n:2\r\n*2\r\n:3\r\n:4\r\n",
		3: "%2\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
	} {
		w := NewWriter(proto)
		m := w.Begin()
		for i := range 2 {
			w.MapEntry()
			w.Int(int64(2*i + 1))
			w.Int(int64(2*i + 2))
		}
		w.EndMapEntries(m, 2)
		if got := string(w.Bytes()); got != want {
			t.Errorf("RESP%d: %q, want %q", proto, got, want)
		}
	}
}
