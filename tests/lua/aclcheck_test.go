package lua_test

import (
	"strings"
	"testing"

	"kevy/tests/inprocess"
	luatest "kevy/tests/lua"
)

// restricted are the rules of users, beside +eval and +echo. In a selector | stands for
// a blank.
var restricted = []string{
	"+@all ~* &*", "+@all ~a* &*", "+@all %R~a* %W~b* &*", "-@all +get +set ~a* &x*", "-@all +@read ~* resetchannels",
	"+@all -config +config|get ~* &*", "-@all +config|get ~*", "-@all +get|a ~*", "-@all +publish &x ~*",
	"+@all (-@all|+get|~a) (-@all|+set|~b)", "-@all (+@all|~a*)", "-@all +sort +zunion +xread +georadius +set ~a ~b",
}

// asked are commands, most of which lack arguments or have too many. Not among them is
// SET or SORT alone: there redis-server 7.0.15 reads behind the arguments.
const asked = `get,set a,set b,set a 1 get,mget,del,config,config get,config get x,config nosuch,config|get,object,object encoding,
object encoding a,object help,xgroup,xgroup create,publish,publish x m,publish y m,subscribe,subscribe x,subscribe x y,psubscribe x,
psubscribe x*,spublish x m,nosuch,get a,get b,GET a,get a b c,set a 1,set b 1,mset,mset a,mset a b,mset a 1 b 2,mset a 1 c,mget a,mget a b,rename,
rename a,rename a b,copy a,copy a b,sort a,sort a store b,sort a store,sort a by x,lmove a,lmove a b,lmove a b left left,zunion 1 a,
zunion 2 a b,zunionstore b 1 a,zunionstore b 9 a,zunion 9 a,xread streams a,xread streams a 0,xread streams,xread,georadius a,
georadius a 1 1 1 m store b,georadius a 1 1 1 m store,ping,ping a,select,select a b c,multi,exec,watch,watch a,watch a b,hello 3,auth,
acl,acl whoami,acl nosuch,acl|whoami,client,client id,client id x y z,script,script load,function,cluster,cluster info,command,
command count,memory usage,memory usage a,memory usage b,info,getdel a,getex a,getex b,incr a,incr,expire a,expire,lpush a,lpop b,blpop,
blpop a,blpop a 0,bzmpop 0 1 a,lmpop 1 a,lmpop 2 a b left,sintercard 1 a,sintercard 2 a b,touch a b,exists,exists a b,pfcount a b,bitop,
bitop and,bitop and b,bitop and b a,bitfield a,bitfield a get,bitfield b get u8 0,xreadgroup group g c streams a,xreadgroup,smove a b,smove a,getset a,
setrange a 0,append,lcs a b,zrangestore b a,zrangestore,hset,hset a,flushall,keys,keys *,scan,dbsize,swapdb,shutdown,debug,debug sleep,
latency help,slowlog get,pubsub,pubsub channels,ssubscribe x,unsubscribe x`

// TestACLCheck: redis.acl_check_cmd answers restricted users as redis-server does, whatever
// is asked.
func TestACLCheck(t *testing.T) {
	oracle := luatest.StartOracle(t)
	if oracle == nil {
		t.Skip("no redis-server 7.0.15")
	}
	kevy := luatest.Connect(t, "tcp", inprocess.Start(t).Addr())
	const script = "local ok, r = pcall(redis.acl_check_cmd, unpack(ARGV)) return {tostring(ok), type(r) == 'table' and r.err or tostring(r)}"
	permitted, refused := 0, 0
	for _, rules := range restricted {
		user := []string{"ACL", "SETUSER", "u", "reset", "on", "nopass"}
		for rule := range strings.FieldsSeq(rules) {
			if rule[0] == '(' {
				rule = strings.ReplaceAll(rule, "|", " ")
			}
			user = append(user, rule)
		}
		for _, s := range []*luatest.Server{oracle, kevy} {
			for _, args := range [][]string{{"AUTH", "default", ""}, append(user, "+eval", "+echo", "+auth"), {"AUTH", "u", "x"}} {
				if got := s.Do(t, 2, args...); got != "+OK\r\n" {
					t.Fatalf("%q: %s", args, got)
				}
			}
		}
		for command := range strings.SplitSeq(strings.ReplaceAll(asked, "\n", ""), ",") {
			args := append([]string{"EVAL", script, "0"}, strings.Fields(command)...)
			want, got := oracle.Do(t, 2, args...), kevy.Do(t, 2, args...)
			if got != want {
				t.Errorf("%s: %s\nis      %q\nmust be %q", rules, command, got, want)
			}
			if strings.Contains(want, "$5\r\nfalse\r\n") {
				refused++
			} else {
				permitted++
			}
		}
	}
	if permitted < 300 || refused < 300 {
		t.Errorf("%d are permitted and %d refused", permitted, refused)
	}
}
