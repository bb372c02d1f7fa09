package oracle

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"kevy/tests/process"
	"kevy/tests/wire"
)

// edge is a command in all its forms: each {a,b,c} stands for one of its words, an empty one for none. Before each
// form the keys are made anew; after it they are looked at. $ is an empty argument, ~ a blank in one.
type edge struct {
	given, form, look string // given and look: commands, separated by ;
	mode              mode
}

const (
	anyInt   = "{0,1,-1,2,-2,3,-3,4,10,-10,+1,01,-0,1.5,x,$,9223372036854775807,-9223372036854775808,9223372036854775808}"
	anyFloat = "{0,-0,1,-1,1.5,0.1,1e300,-1e300,1e-400,inf,-inf,+inf,infinity,nan,0x10,1e,x,$,~1,(1,(inf,(nan,(,[a}"
	anyLex   = "{-,+,[,(,[a,(a,[b,(b,[c,(c,[bb,(bb,[zz,a,$,(-,(+,[-,[+}"
)

var edges = []edge{
	{"SET k abcdefghij;SET n 12345", "GETRANGE {k,n,l,missing} " + anyInt + " " + anyInt, "", exact},
	{"SET k abcdef;SET n 123;RPUSH l a", "SETRANGE {k,n,l,new} {0,1,3,6,9,-1,x,$,536870911,536870912,9223372036854775807} {xy,$,z}", "GET k;GET n;GET new;OBJECT ENCODING n;OBJECT ENCODING k", exact},
	{"SET k 10;SET f 1.5;SET t abc;SET b 9223372036854775807;RPUSH l a", "{INCRBY,DECRBY,incrbyfloat} {k,f,t,b,l,new} " + anyInt, "GET k;GET f;GET b;GET new;OBJECT ENCODING k", exact},
	{"SET k 10;SET f 1.5;SET t abc;SET s ~1;SET e $;SET h 0x10;SET i inf;RPUSH l a", "INCRBYFLOAT {k,f,t,s,e,h,i,l,new} " + anyFloat, "GET k;GET f;GET h;GET new;OBJECT ENCODING k;OBJECT ENCODING new", exact},
	{"HSET h k 10 f 1.5 t abc s ~1 e $ x 0x10 i inf", "{HINCRBY,HINCRBYFLOAT} h {k,f,t,s,e,x,i,new} " + anyFloat, "HGETALL h", unorderedPairs},
	{"SET k abc PX 100000;RPUSH l a", "{SET,set} {k,l,new} v {,NX,XX,GET} {,GET,nx,KEEPTTL} {,EX,PX,KEEPTTL,EXAT,PXAT,bogus} {,10,0,-1,x,9223372036854775807,33177117420} {,GET,XX,KEEPTTL}", "GET k;EXISTS new;TYPE l", exact},
	{"SET k abc PX 100000;RPUSH l a", "GETEX {k,l,new} {,EX,PX,EXAT,PXAT,PERSIST,KEEPTTL} {,10,0,-1,x,9223372036854775807,33177117420,PERSIST} {,PERSIST,EX}", "GET k;EXISTS k new", exact},
	{"SET a ohmytext;SET b mynewtext;SET e $;RPUSH l x", "LCS {a,e,l,missing} {a,b,missing} {,LEN,IDX,MINMATCHLEN} {,IDX,LEN,MINMATCHLEN,2} {,WITHMATCHLEN,4,-1,0,x,MINMATCHLEN} {,WITHMATCHLEN,IDX,3}", "", exact},
	{"SET k \xff\x0f\x00\xf0a;SET z \x00\x00;SET o \xff\xff;SET e $;RPUSH l a", "BITCOUNT {k,z,o,e,l,missing} {,0,1,-1,-2,5,-100,x} {,0,-1,3,10,-100,$} {,BIT,BYTE,bit,x} {,x}", "", exact},
	{"SET k \xff\x0f\x00\xf0a;SET z \x00\x00;SET o \xff\xff;SET e $;RPUSH l a", "BITPOS {k,z,o,e,l,missing} {0,1,2,-1,x} {,0,1,-1,-2,5,-100,x} {,0,-1,3,10,-100,$} {,BIT,BYTE,x}", "", exact},
	{"SET k abc;RPUSH l a", "BITFIELD {k,l,new} {,OVERFLOW} {,WRAP,SAT,FAIL,x} {GET,SET,INCRBY} {u8,i8,u1,i1,u63,i64,u64,i65,u0,x8,i} {0,1,#1,-1,#-1,100,4294967295,#99999999999,x} {,0,1,-1,127,128,255,256,-129,9223372036854775807,-9223372036854775808,x}", "GET k;STRLEN new;OBJECT ENCODING k", exact},
	{"SET k abc;RPUSH l a", "BITFIELD_RO {k,l,new} {GET,SET,OVERFLOW,get} {u8,i5,WRAP,u64} {0,#2,7,-1,x} {,GET,SET} {,u8} {,3,x}", "GET k", exact},
	{"SET k abc;SET n 5;RPUSH l a", "{SETBIT,GETBIT} {k,n,l,new} {0,7,8,100,-1,x,$,4294967295,4294967296,9223372036854775807} {,0,1,2,-1,x}", "GET k;STRLEN new;OBJECT ENCODING n", exact},
	{"SET a abc;SET b \xff\x00;SET n 12;RPUSH l a;SET d old", "BITOP {AND,or,XOR,NOT,NAND,$} {d,l,a} {a,b,n,l,missing} {,a,b,l,missing} {,n,missing}", "GET d;TYPE l;GET a;OBJECT ENCODING d", exact},
	{"SADD a 1 2 3;SADD b 2 3 4;SADD s x y 1;SET k v", "SINTERCARD {0,1,2,3,-1,x,$} {,a,k,missing} {,b,a,missing,s} {,LIMIT,limit,b} {,0,1,2,10,-1,x} {,LIMIT}", "", exact},
	{"ZADD z 1 a 1 b 1 c 1 d;ZADD w 1 a 2 b 3 c;SET k v", "{ZRANK,ZREVRANK} {z,w,k,missing} {a,c,x,$}", "", exact},
	{"ZADD z 1 a 2 b 3 c 3 d inf e -inf f;SET k v", "ZRANGE {z,k,missing} {0,1,-1,x,(1,1,-inf,nan,[a} {-1,2,100,x,(3,+inf,inf,[c,1.5} {,BYSCORE,BYLEX,REV} {,REV,BYSCORE,LIMIT,WITHSCORES,bogus} {,LIMIT,WITHSCORES,0} {,0,1,-1,x} {,2,-1,0,x} {,WITHSCORES}", "", scores},
	{"ZADD z 1 a 2 b 3 c 3 d inf e -inf f;SET k v", "{ZRANGEBYSCORE,ZREVRANGEBYSCORE} {z,k,missing} " + anyFloat + " " + anyFloat + " {,WITHSCORES,LIMIT~1~2,LIMIT}", "", scores},
	{"ZADD z 1 a 2 b 3 c 3 d inf e -inf f;SET k v", "{ZCOUNT,ZREMRANGEBYSCORE} {z,k,missing} " + anyFloat + " " + anyFloat, "ZRANGE z 0 -1", scores},
	{"ZADD z 0 a 0 b 0 bb 0 c 0 zz 0 -;SET k v", "{ZRANGEBYLEX,ZREVRANGEBYLEX,ZLEXCOUNT,ZREMRANGEBYLEX} {z,k,missing} " + anyLex + " " + anyLex, "ZRANGE z 0 -1", scores},
	{"ZADD z 0 a 0 b 0 bb 0 c 0 zz 0 -;SET k v", "{ZRANGEBYLEX,ZREVRANGEBYLEX} z {-,+,[b,x} {+,-,(zz} {LIMIT,limit,WITHSCORES} {,0,1,-1,x,100} {,0,1,-1,2,x}", "", scores},
	{"ZADD z 1 a 2 b 3 c;SET k v", "{ZRANGE,ZREVRANGE,ZREMRANGEBYRANK} {z,k,missing} " + anyInt + " " + anyInt, "ZRANGE z 0 -1", scores},
	{"ZADD z 1 a 2 b 3 c;ZADD d 9 old;SET k v", "ZRANGESTORE {d,k,z} {z,k,missing} {0,1,-1,(1,-inf,-,[a,x} {-1,2,inf,+,(c,x} {,BYSCORE,BYLEX,REV} {,REV,LIMIT,WITHSCORES} {,0,LIMIT} {,1,0} {,1}", "ZRANGE d 0 -1 WITHSCORES;TYPE k;EXISTS z", scores},
	{"ZADD z 1 a 2 b;SET k v", "ZADD {z,k,new} {,NX,XX,GT,LT,CH,INCR} {,NX,XX,GT,LT,CH,INCR} {,CH,INCR} " + "{0,1,1.5,-inf,inf,nan,x,$,1e400}" + " {a,c,$} {,5} {,b}", "ZRANGE z 0 -1 WITHSCORES;ZRANGE new 0 -1 WITHSCORES", scores},
	{"ZADD z 1 a inf i -inf j;SET k v", "ZINCRBY {z,k,new} " + anyFloat + " {a,i,j,n}", "ZRANGE z 0 -1 WITHSCORES", scores},
	{"ZADD z 1 a 2 b 3 c;ZADD y 1 q;SET k v", "ZMPOP {0,1,2,-1,x,$} {z,k,missing} {,y,MIN,z} {MIN,MAX,max,x} {,COUNT,MIN} {,1,2,0,-1,x,100} {,COUNT,1}", "ZRANGE z 0 -1;ZCARD y", scores},
	{"RPUSH l a b c;RPUSH m x;SET k v", "LMPOP {0,1,2,-1,x,$} {l,k,missing} {,m,LEFT,l} {LEFT,RIGHT,right,x} {,COUNT,LEFT} {,1,2,0,-1,x,100} {,COUNT,1}", "LRANGE l 0 -1;LLEN m", exact},
	{"ZADD z 1 a 2 b 3 c;SET k v", "{ZPOPMIN,ZPOPMAX} {z,k,missing} {,1,2,0,-1,100,x,$,9223372036854775807,9223372036854775808} {,1}", "ZRANGE z 0 -1", scores},
	{"RPUSH l a b c;SET k v", "{LPOP,RPOP} {l,k,missing} {,1,2,0,-1,100,x,$,9223372036854775807} {,1}", "LRANGE l 0 -1", exact},
	{"RPUSH l a b c b a;SET k v", "LPOS {l,k,missing} {a,b,x} {,RANK,COUNT,MAXLEN,bogus} {,1,2,-1,0,x,-9223372036854775807,100} {,COUNT,MAXLEN,RANK} {,0,1,-1,2,x}", "", exact},
	{"RPUSH l a b c b a;SET k v", "{LRANGE,LTRIM} {l,k,missing} " + anyInt + " " + anyInt, "LRANGE l 0 -1;EXISTS l", exact},
	{"RPUSH l a b c b a;SET k v", "{LINDEX,LREM,LSET,LINSERT} {l,k,missing} {0,1,-1,2,-2,100,-100,BEFORE,AFTER,x,9223372036854775807,-9223372036854775808} {,a,b,z} {,n}", "LRANGE l 0 -1", exact},
	{"RPUSH l a b c;RPUSH m x;SET k v", "LMOVE {l,k,missing} {l,m,k,new} {LEFT,RIGHT,x} {LEFT,right,x}", "LRANGE l 0 -1;LRANGE m 0 -1;LRANGE new 0 -1", exact},
	{"ZADD a 1 x 2 y;ZADD b 10 y 20 z;SADD s y w;ZADD i inf y;ZADD j -inf y;SET k v;ZADD d 1 o", "{ZUNION,ZINTER} {1,2,3,0,-1,x} {a,s,i,k,missing} {,b,j,a} {,s,WEIGHTS,AGGREGATE,WITHSCORES} {,1,2,-1,inf,nan,x,SUM,MIN,MAX} {,0,3,WITHSCORES} {,WITHSCORES,AGGREGATE}", "", scores},
	{"ZADD a 1 x 2 y;ZADD b 10 y 20 z;SADD s y w;ZADD i inf y;ZADD j -inf y;SET k v;ZADD d 1 o", "{ZUNIONSTORE,ZINTERSTORE,ZDIFFSTORE} {d,k,a} {1,2,3,0,x} {a,s,i,k,missing} {,b,j,a} {,WEIGHTS,AGGREGATE,WITHSCORES} {,1,inf,x,SUM,MIN} {,0,3}", "ZRANGE d 0 -1 WITHSCORES;TYPE k;ZRANGE a 0 -1 WITHSCORES", scores},
	{"ZADD a 1 x 2 y;ZADD b 10 y 20 z;SADD s y w;SET k v", "{ZINTERCARD,ZDIFF} {1,2,0,-1,x} {a,s,k,missing} {,b,a} {,LIMIT,WITHSCORES} {,0,1,-1,x} {,LIMIT}", "", scores},
	{"ZADD z 1 a;HSET h f v;SADD s a;SET k v", "{ZRANDMEMBER,HRANDFIELD,SRANDMEMBER} {z,h,s,k,missing} {,0,1,-1,2,-2,x,$,9223372036854775807,9223372036854775808} {,WITHSCORES,WITHVALUES,x} {,x}", "", scores},
	{"SET k v;HSET h f v;SADD s a;ZADD z 1 a;RPUSH l a", "{SSCAN,HSCAN,ZSCAN} {k,h,s,z,missing} {0,x,-1,$,18446744073709551615,18446744073709551616} {,MATCH,COUNT,TYPE} {,a*,0,1,-1,x} {,COUNT,MATCH} {,10,*}", "", shape},
	{"SET k v;HSET h f v;SADD s 1 a;ZADD z 1 a;RPUSH l a;SET n 5;SET r abc", "OBJECT {ENCODING,REFCOUNT,FREQ,encoding,BOGUS,HELP} {k,h,s,z,l,n,r,missing,} {,x}", "", exact},
	// 7.0 answers for a shared integer what it answers for all keys that hold it.
	{"SET k v;HSET h f v", "OBJECT {IDLETIME,idletime} {k,h,missing,} {,x}", "", exact},
	{"SET k v PX 100000;RPUSH l a;SET n 5", "{TTL,PTTL,EXPIRETIME,STRLEN,GETDEL,GETSET,SETNX,APPEND,SETEX,PSETEX} {k,l,n,missing} {,x,100,0,$} {,v}", "GET n;EXISTS k l missing", clock},
	{"SET k v;RPUSH l a;SET d old", "COPY {k,l,missing} {d,k,new} {,DB,REPLACE,bogus} {,1,0,99,-1,x,9223372036854775807,REPLACE} {,REPLACE,DB}", "GET d;EXISTS new;TYPE new", exact},
	{"SET k v;SET e v EX 100;SET f v EX 1000", "{EXPIRE,PEXPIRE} {k,e,f,missing} {100,0,-1,x,$,9223372036854775807,-9223372036854775808,9223372036854775,500000} {,NX,XX,GT,LT,bogus} {,NX,GT,LT}", "EXISTS k e f;GET k", exact},
	{"SET k v;SET e v PXAT 33177117420000", "{EXPIREAT,PEXPIREAT} {k,e,missing} {1,0,-1,x,33177117419,33177117421000,9223372036854775807,-9223372036854775808,9223372036854776} {,NX,XX,GT,LT,bogus} {,NX,GT,LT}", "EXISTS k e;PEXPIRETIME k;PEXPIRETIME e", exact},
	{"SET k v;SET d old;RPUSH l a", "{RENAME,RENAMENX,MOVE,SWAPDB,TOUCH,EXISTS,UNLINK,DEL,TYPE,PERSIST} {k,l,missing,0,1} {,d,k,l,1,0,99,-1,x} {,k}", "EXISTS k d l;TYPE d", exact},
	{"SADD a 1 2;SADD s x;SET k v", "{SMISMEMBER,SISMEMBER,SMOVE,SPOP,SREM} {a,s,k,missing} {,s,1,x,k,$} {,1,x,2} {,2}", "EXISTS a s k;SCARD s", random},
	{"HSET h a 1 b 2;SET k v", "{HMGET,HGET,HSETNX,HSET,HMSET,HDEL,HEXISTS,HSTRLEN,HKEYS,HVALS,HLEN} {h,k,missing} {,a,x,$} {,b,1} {,c} {,2}", "HGETALL h;EXISTS missing", unorderedPairs},
	{"SET k v", "{MSET,MSETNX,MGET} {,k,a} {,1,k} {,b,k} {,2}", "GET k;GET a;GET b", exact},
	{"XADD s 1-1 a 1;XADD s 2-2 b 2;XADD s 5-0 c 3;SET k v", "{XRANGE,XREVRANGE} {s,k,missing} {-,+,0,1,1-1,(1-1,2,(2,5,(5-0,x,$,(-,18446744073709551615-18446744073709551615,(18446744073709551615-18446744073709551615} {+,-,5,2-2,(2-2,(0-0,x,1} {,COUNT,x} {,1,0,-1,x}", "", exact},
	{"XADD s 1-1 a 1;XADD s 2-2 b 2;SET k v", "XADD {s,k,new} {,NOMKSTREAM,MAXLEN,MINID} {,~,=,1,0,-1,x,2-2} {,LIMIT,1,0} {,0,10,-1} {3-1,3-*,0-0,2-2,2-*,1,x,-,18446744073709551615-18446744073709551615} {a,} {1,} {,b}", "XRANGE s - +;XLEN new", exact},
	{"XADD s 1-1 a 1;XADD s 2-2 b 2;XADD s 3-3 c 3;SET k v", "XTRIM {s,k,missing} {MAXLEN,MINID,x} {,~,=} {0,1,2,-1,2-2,3,x,$} {,LIMIT,x} {,0,10,-1,x}", "XRANGE s - +", exact},
	{"XADD s 1-1 a 1;XADD s 2-2 b 2;SET k v", "XSETID {s,k,missing} {2-2,3-0,1-1,0-0,x,-} {,ENTRIESADDED,x} {,2,1,5,-1,x} {,MAXDELETEDID} {,1-1,3-3,x}", "XINFO STREAM s", exact},
	{"RPUSH l 3 1 2 10 -1;RPUSH t b a;SET w_1 5;SET w_2 4;HSET w_3 f 1;SET k v", "{SORT,SORT_RO} {l,t,k,missing} {,BY,LIMIT,GET,bogus} {,w_*,nosort,w_*->f,#,0,1,-1,x} {,1,2,-1,0,x,DESC,asc} {,ALPHA,GET} {,#,w_*,DESC} {,STORE,LIMIT} {,d,l,0} {,2}", "LRANGE d 0 -1;TYPE l;TYPE k", exact},
	{"SADD s 3 1 2;ZADD z 3 1 1 2 2 3", "{SORT,SORT_RO} {z,s} {,LIMIT,DESC} {,0,1,x} {,2,-1} {,DESC,ALPHA} {,STORE} {,d}", "LRANGE d 0 -1;OBJECT ENCODING z", exact},
	{"GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b 13.4 38.1 c 0 0 z;SET k v", "GEOADD {g,k,new} {,NX,XX,CH} {,XX,CH} {13.5,180,-180,181,x,inf,nan,1e1} {38.1,85.05112878,86,-85.06,$,x} {a,d} {,1} {,2} {,e}", "ZRANGE g 0 -1 WITHSCORES;ZRANGE new 0 -1 WITHSCORES", scores},
	{"GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b 13.4 38.1 c 0 0 z;SET k v", "GEODIST {g,k,missing} {a,b,x} {a,b,x} {,m,KM,ft,mi,cm,$} {,m}", "", exact},
	{"GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b 13.4 38.1 c 0 0 z;SET k v", "{GEOPOS,GEOHASH} {g,k,missing} {,a,x} {,b} {,$}", "", coordinates},
	{"GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b 13.4 38.1 c 0 0 z;SET k v", "GEOSEARCH {g,k,missing} {FROMMEMBER,FROMLONLAT,BYRADIUS} {a,15,x} {BYRADIUS,37,BYBOX,200} {200,BYRADIUS,0,-1,x,inf} {km,200,x} {,km,100} {,km,ASC,COUNT} {,COUNT,DESC,WITHDIST} {,1,0,ANY,WITHCOORD}", "", coordinates},
	{"GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b 13.4 38.1 c 0 0 z;SET k v", "GEOSEARCHSTORE {d,g,k} {g,k,missing} FROMMEMBER {a,x} {BYRADIUS,BYBOX} {200,0,-1,x} {km,200,x} {,km,STOREDIST} {,STOREDIST,COUNT,WITHDIST} {,1,x}", "ZRANGE d 0 -1;ZRANGE g 0 -1;TYPE k", exact},
	{"GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b 13.4 38.1 c 0 0 z;SET k v", "{GEORADIUS,GEORADIUS_RO} {g,k,missing} {15,x,200} {37,x,90} {200,0,-1,x} {km,m,x} {,WITHDIST,WITHHASH,COUNT,ASC,STORE} {,1,d,DESC,WITHCOORD} {,ANY,STORE,bogus} {,d}", "ZRANGE d 0 -1", coordinates},
	{"GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b 13.4 38.1 c 0 0 z;SET k v", "{GEORADIUSBYMEMBER,GEORADIUSBYMEMBER_RO} {g,k,missing} {a,x} {200,0,-1,x} {km,m,x} {,WITHDIST,COUNT,STORE,STOREDIST} {,1,d,DESC} {,ANY,ASC,bogus} {,STORE} {,e}", "ZRANGE d 0 -1;ZRANGE e 0 -1", coordinates},
	{"PFADD h a b c;PFADD i c d;SET k v;RPUSH l a", "PFADD {h,k,l,new} {,a,b,x,$} {,y}", "GET h;GET new;OBJECT ENCODING new", exact},
	{"PFADD h a b c;PFADD i c d;SET k v;RPUSH l a", "{PFCOUNT,PFMERGE} {h,i,k,l,new} {,i,h,k,l,missing} {,h,missing}", "GET h;GET i;GET new", exact},
	{"PFADD h a b c;PFADD i c d;SET k v;RPUSH l a", "PFDEBUG {GETREG,DECODE,ENCODING,TODENSE,encoding,bogus,$} {h,k,l,missing} {,x}", "PFDEBUG ENCODING h;GET h", exact},
}

// forms returns the words of each form; if there are more than limit, so many are drawn.
func (e *edge) forms(rng *rand.Rand, limit int) [][]string {
	var choices [][]string
	total := 1
	for _, part := range strings.Fields(e.form) {
		words := []string{part}
		if strings.HasPrefix(part, "{") {
			words = strings.Split(part[1:len(part)-1], ",")
		}
		choices = append(choices, words)
		total *= len(words)
	}
	pick := func(n int) (args []string) {
		for _, words := range choices {
			if w := words[n%len(words)]; w != "" {
				args = append(args, plain(w)...)
			}
			n /= len(words)
		}
		return args
	}
	var out [][]string
	if total <= limit {
		for n := range total {
			out = append(out, pick(n))
		}
		return out
	}
	for range limit {
		out = append(out, pick(rng.IntN(total)))
	}
	return out
}

// plain turns a word of an edge into arguments: LIMIT~1~2 are three.
func plain(w string) []string {
	switch {
	case w == "$":
		return []string{""}
	case strings.HasPrefix(w, "LIMIT~"):
		return strings.Split(w, "~")
	}
	return []string{strings.ReplaceAll(w, "~", " ")}
}

func commands(list string) (out [][]string) {
	for _, line := range strings.Split(list, ";") {
		var args []string
		for _, w := range strings.Fields(line) {
			args = append(args, plain(w)...)
		}
		if len(args) > 0 {
			out = append(out, args)
		}
	}
	return out
}

// TestEdges compares what both servers answer to commands in all their forms, right and wrong. KEVY_ORACLE_EDGES says
// how many forms of each command are tried at most.
func TestEdges(t *testing.T) {
	limit := number(t, "KEVY_ORACLE_EDGES", 800)
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_ORACLE_EDGES=%d", seed, limit)
	rng := rand.New(rand.NewPCG(seed, 0))
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}})
	server := process.Start(t, process.Subject(t), process.Config{})
	allow, err := parseAllow(allowText)
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for i := range edges {
		e := &edges[i]
		t.Run(fmt.Sprint(i, "_", strings.Fields(e.form)[0]), func(t *testing.T) {
			compared += e.compare(t, e.forms(rng, int(limit)), oracle.Conn(t), server.Conn(t), allow)
		})
	}
	t.Logf("%d forms were compared", compared)
	if atLeast := 40 * int(min(limit, 800)); compared < atLeast && !t.Failed() {
		t.Errorf("%d forms were compared, fewer than %d", compared, atLeast)
	}
}

func (e *edge) compare(t *testing.T, forms [][]string, oracle, server *wire.Conn, allow allowList) (compared int) {
	for _, c := range []*wire.Conn{oracle, server} {
		_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
		if _, err := c.Do("FLUSHALL"); err != nil {
			t.Fatal(err)
		}
	}
	given, look := commands(e.given), commands(e.look)
	const batch = 100
	failures := 0
	for len(forms) > 0 {
		n := min(batch, len(forms))
		var cmds [][]string
		var at []int // of the forms, in cmds
		for _, form := range forms[:n] {
			cmds = append(cmds, []string{"SELECT", "0"}, []string{"FLUSHDB"})
			cmds = append(cmds, given...)
			at = append(at, len(cmds))
			cmds = append(append(cmds, form), look...)
		}
		want, err := oracle.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := server.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		for i, at := range at {
			compared++
			for j := at; j <= at+len(look); j++ {
				if same(e.mode, want[j], got[j]) || allow.allows(cmd(cmds[j]...), want[j], got[j]) {
					continue
				}
				if failures++; failures <= 12 {
					t.Errorf("%q, then %q:\n  oracle: %s\n  server: %s", forms[i], cmds[j], want[j], got[j])
				}
				break
			}
		}
		forms = forms[n:]
	}
	if failures > 12 {
		t.Errorf("%d forms differ", failures)
	}
	return compared
}

// TestFloatsAreRedis adds random numbers on both servers: the sums are those of an 80-bit long double, to the last
// digit that is printed. KEVY_ORACLE_FLOATS says how many.
func TestFloatsAreRedis(t *testing.T) {
	total := number(t, "KEVY_ORACLE_FLOATS", 2000)
	seed := number(t, "KEVY_SEED", uint64(time.Now().UnixNano()>>10))
	t.Logf("KEVY_SEED=%d KEVY_ORACLE_FLOATS=%d", seed, total)
	rng := rand.New(rand.NewPCG(seed, 0))
	oracle := process.Start(t, process.Oracle(t), process.Config{Args: []string{"--appendonly", "no"}}).Conn(t)
	server := process.Start(t, process.Subject(t), process.Config{}).Conn(t)
	failures := 0
	for done := uint64(0); done < total && failures < 20; {
		var cmds [][]string
		for range min(200, total-done) {
			a, b := randomDecimal(rng), randomDecimal(rng)
			cmds = append(cmds, []string{"SET", "k", a}, []string{"INCRBYFLOAT", "k", b}, []string{"GET", "k"},
				[]string{"HSET", "h", "f", b}, []string{"HINCRBYFLOAT", "h", "f", a}, []string{"HGET", "h", "f"})
			done++
		}
		for _, c := range []*wire.Conn{oracle, server} {
			_ = c.SetDeadline(time.Now().Add(time.Minute))
		}
		want, err := oracle.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		got, err := server.Pipeline(cmds...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range cmds {
			if !want[i].Equal(got[i]) {
				failures++
				t.Errorf("%q, %q:\n  oracle: %s\n  server: %s", cmds[max(0, i-1)], cmds[i], want[i], got[i])
			}
		}
	}
}

// randomDecimal writes a number as people and programs do: few digits, many, an exponent, none.
func randomDecimal(rng *rand.Rand) string {
	digits := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('0' + rng.IntN(10))
		}
		return string(b)
	}
	text := ""
	if rng.IntN(3) == 0 {
		text = "-"
	}
	switch rng.IntN(8) {
	case 0:
		return text + digits(1+rng.IntN(20))
	case 1:
		return text + digits(1+rng.IntN(4)) + "." + digits(1+rng.IntN(3))
	case 2:
		return text + digits(1+rng.IntN(20)) + "." + digits(1+rng.IntN(25))
	case 3:
		return text + "0." + strings.Repeat("0", rng.IntN(20)) + digits(1+rng.IntN(20))
	case 4:
		return fmt.Sprint(text, digits(1), ".", digits(1+rng.IntN(20)), "e", rng.IntN(80)-40)
	case 5:
		return fmt.Sprint(text, digits(1), "e", rng.IntN(9900)-4950)
	case 6:
		return fmt.Sprintf("%s%.17g", text, rng.ExpFloat64()*1e6)
	}
	return fmt.Sprintf("%s0x%x.%xp%d", text, rng.IntN(1<<20), rng.Uint32(), rng.IntN(120)-60)
}
