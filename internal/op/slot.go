package op

import (
	"bytes"
	"encoding/binary"
)

// Slots is the number of hash slots of Redis Cluster.
const Slots = 16384

// crcTables[k][b] is the CRC16 of byte b with k zero bytes behind it: with them
// eight bytes are taken at once.
var crcTables = func() (t [8][256]uint16) {
	for i := range t[0] {
		crc := uint16(i) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		t[0][i] = crc
	}
	for k := 1; k < len(t); k++ {
		for i := range t[k] {
			t[k][i] = t[k-1][i]<<8 ^ t[0][t[k-1][i]>>8]
		}
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
	return int(crc16(key)) & (Slots - 1)
}

func crc16(b []byte) (crc uint16) {
	t := &crcTables
	for len(b) >= 8 {
		x := binary.BigEndian.Uint64(b) ^ uint64(crc)<<48
		crc = t[7][x>>56] ^ t[6][x>>48&0xff] ^ t[5][x>>40&0xff] ^ t[4][x>>32&0xff] ^
			t[3][x>>24&0xff] ^ t[2][x>>16&0xff] ^ t[1][x>>8&0xff] ^ t[0][x&0xff]
		b = b[8:]
	}
	for _, c := range b {
		crc = crc<<8 ^ t[0][byte(crc>>8)^c]
	}
	return crc
}

// ShardOf returns the shard of a key in a store of n shards.
func ShardOf(key []byte, n int) int { return Slot(key) * n / Slots }
