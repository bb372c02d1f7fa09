package op

import "bytes"

// Slots is the number of hash slots of Redis Cluster.
const Slots = 16384

var crcTable = func() (t [256]uint16) {
	for i := range t {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[i] = crc
	}
	return t
}()

// Slot returns the hash slot of a key: CRC16 (XMODEM) modulo 16384, taken over
// what stands between the first '{' and the next '}' if that is not empty, as
// in the Redis Cluster specification.
func Slot(key []byte) int {
	if i := bytes.IndexByte(key, '{'); i >= 0 {
		if j := bytes.IndexByte(key[i+1:], '}'); j > 0 {
			key = key[i+1 : i+1+j]
		}
	}
	var crc uint16
	for _, c := range key {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^c]
	}
	return int(crc) & (Slots - 1)
}

// ShardOf returns the shard of a key in a store of n shards.
func ShardOf(key []byte, n int) int { return Slot(key) * n / Slots }
