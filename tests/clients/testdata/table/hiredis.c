/* A row of the table for hiredis, which Debian has without TLS: hiredis HOST PORT PROTOCOL USER PASSWORD. With port 0
 * HOST is the path of a Unix socket. */
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

static const char *host, *user, *password;
static int port;

#define CHECK(condition)                                                                                               \
  do {                                                                                                                 \
    if (!(condition)) {                                                                                                \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition);                                                          \
      exit(1);                                                                                                         \
    }                                                                                                                  \
  } while (0)

static void step(const char *name) {
  puts(name);
  fflush(stdout);
}

/* dial connects, or returns NULL. */
static redisContext *dial(void) {
  struct timeval minute = {60, 0};
  redisContext *c = port == 0 ? redisConnectUnixWithTimeout(host, minute) : redisConnectWithTimeout(host, port, minute);
  CHECK(c != NULL);
  if (c->err) {
    redisFree(c);
    return NULL;
  }
  CHECK(redisSetTimeout(c, minute) == REDIS_OK);
  return c;
}

/* is frees a reply and tells whether it is of a type, and has or begins with a text. */
static int is(redisReply *r, int type, const char *text) {
  if (r == NULL) return 0;
  int same = r->type == type;
  if (same && text != NULL) {
    if (type == REDIS_REPLY_INTEGER) same = r->integer == atoll(text);
    else if (type == REDIS_REPLY_ERROR) same = strncmp(r->str, text, strlen(text)) == 0;
    else same = strcmp(r->str, text) == 0;
  }
  if (!same) fprintf(stderr, "type %d, %lld, %s; want type %d, %s\n", r->type, r->integer, r->str ? r->str : "-", type, text ? text : "-");
  freeReplyObject(r);
  return same;
}

static redisContext *open_client(void) {
  redisContext *c = dial();
  CHECK(c != NULL);
  CHECK(is(redisCommand(c, "AUTH %s %s", user, password), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(c, "CLIENT SETNAME a-client"), REDIS_REPLY_STATUS, "OK"));
  return c;
}

static redisReply *next(redisContext *c) {
  void *r = NULL;
  CHECK(redisGetReply(c, &r) == REDIS_OK);
  return r;
}

/* next_array checks the words of an array that the server sends next. An array within counts by its first word. */
static void next_array(redisContext *c, int n, const char **words) {
  redisReply *r = next(c);
  CHECK(r->type == REDIS_REPLY_ARRAY && (int)r->elements == n);
  for (int i = 0; i < n; i++) {
    redisReply *e = r->element[i];
    if (e->type == REDIS_REPLY_ARRAY) e = e->element[0];
    if (words[i] != NULL) CHECK(e->type == REDIS_REPLY_STRING && strcmp(e->str, words[i]) == 0);
  }
  freeReplyObject(r);
}

#define COUNT "return redis.call('INCRBY', KEYS[1], ARGV[1])"

int main(int argc, char **argv) {
  CHECK(argc == 6 && strcmp(argv[3], "2") == 0);
  host = argv[1], port = atoi(argv[2]), user = argv[4], password = argv[5];
  struct timespec moment = {0, 10000000};
  signal(SIGPIPE, SIG_IGN); /* what is sent on a connection that is gone fails */

  redisContext *stranger = dial();
  CHECK(stranger != NULL);
  CHECK(is(redisCommand(stranger, "AUTH %s wrong", user), REDIS_REPLY_ERROR, "WRONGPASS"));
  redisFree(stranger);
  redisContext *c = open_client(), *other = open_client();
  CHECK(is(redisCommand(c, "CLIENT GETNAME"), REDIS_REPLY_STRING, "a-client"));
  CHECK(is(redisCommand(c, "ACL WHOAMI"), REDIS_REPLY_STRING, user));
  CHECK(is(redisCommand(c, "GET other"), REDIS_REPLY_ERROR, "NOPERM"));
  CHECK(is(redisCommand(c, "FLUSHALL"), REDIS_REPLY_ERROR, "NOPERM"));
  step("connect");

  for (int i = 0; i < 5000; i++) redisAppendCommand(c, "INCR app:n");
  redisAppendCommand(c, "LPUSH app:n x");
  redisAppendCommand(c, "INCR app:n");
  for (int i = 0; i < 5000; i++) CHECK(is(next(c), REDIS_REPLY_INTEGER, NULL));
  CHECK(is(next(c), REDIS_REPLY_ERROR, "WRONGTYPE"));
  CHECK(is(next(c), REDIS_REPLY_INTEGER, "5001"));
  step("pipeline");

  CHECK(is(redisCommand(c, "MULTI"), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(c, "SET app:a 1"), REDIS_REPLY_STATUS, "QUEUED"));
  CHECK(is(redisCommand(c, "INCR app:a"), REDIS_REPLY_STATUS, "QUEUED"));
  redisReply *r = redisCommand(c, "EXEC");
  CHECK(r && r->type == REDIS_REPLY_ARRAY && r->elements == 2 && r->element[1]->integer == 2);
  freeReplyObject(r);
  CHECK(is(redisCommand(c, "WATCH app:a"), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(other, "SET app:a theirs"), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(c, "MULTI"), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(c, "SET app:a mine"), REDIS_REPLY_STATUS, "QUEUED"));
  CHECK(is(redisCommand(c, "EXEC"), REDIS_REPLY_NIL, NULL));
  CHECK(is(redisCommand(c, "MULTI"), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(c, "SET other mine"), REDIS_REPLY_ERROR, "NOPERM"));
  CHECK(is(redisCommand(c, "EXEC"), REDIS_REPLY_ERROR, "EXECABORT"));
  CHECK(is(redisCommand(c, "GET app:a"), REDIS_REPLY_STRING, "theirs"));
  step("transaction");

  redisContext *sub = open_client();
  redisAppendCommand(sub, "SUBSCRIBE app:channel");
  next_array(sub, 3, (const char *[]){"subscribe", "app:channel", NULL});
  redisAppendCommand(sub, "PSUBSCRIBE app:*");
  next_array(sub, 3, (const char *[]){"psubscribe", "app:*", NULL});
  redisAppendCommand(sub, "SSUBSCRIBE app:channel");
  next_array(sub, 3, (const char *[]){"ssubscribe", "app:channel", NULL});
  CHECK(is(redisCommand(other, "PUBLISH app:channel hello"), REDIS_REPLY_INTEGER, "2"));
  next_array(sub, 3, (const char *[]){"message", "app:channel", "hello"});
  next_array(sub, 4, (const char *[]){"pmessage", "app:*", "app:channel", "hello"});
  CHECK(is(redisCommand(other, "SPUBLISH app:channel hello"), REDIS_REPLY_INTEGER, "1"));
  next_array(sub, 3, (const char *[]){"smessage", "app:channel", "hello"});
  redisFree(sub);
  step("pub/sub");

  sub = open_client();
  redisReply *listener = redisCommand(sub, "CLIENT ID");
  CHECK(listener && listener->type == REDIS_REPLY_INTEGER);
  redisAppendCommand(sub, "SUBSCRIBE __redis__:invalidate");
  next_array(sub, 3, (const char *[]){"subscribe", "__redis__:invalidate", NULL});
  CHECK(is(redisCommand(c, "CLIENT TRACKING ON REDIRECT %lld", listener->integer), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(c, "GET app:a"), REDIS_REPLY_STRING, "theirs"));
  CHECK(is(redisCommand(other, "SET app:a newer"), REDIS_REPLY_STATUS, "OK"));
  next_array(sub, 3, (const char *[]){"message", "__redis__:invalidate", "app:a"});
  CHECK(is(redisCommand(c, "CLIENT TRACKING OFF"), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(other, "SET app:a theirs"), REDIS_REPLY_STATUS, "OK"));
  freeReplyObject(listener);
  redisFree(sub);
  step("caching");

  CHECK(is(redisCommand(c, "EVALSHA 0000000000000000000000000000000000000000 0"), REDIS_REPLY_ERROR, "NOSCRIPT"));
  CHECK(is(redisCommand(c, "EVAL %s 1 app:count 5", COUNT), REDIS_REPLY_INTEGER, "5"));
  r = redisCommand(c, "SCRIPT LOAD %s", COUNT);
  CHECK(r && r->type == REDIS_REPLY_STRING);
  CHECK(is(redisCommand(c, "EVALSHA %s 1 app:count 5", r->str), REDIS_REPLY_INTEGER, "10"));
  freeReplyObject(r);
  CHECK(is(redisCommand(c, "EVAL %s 1 app:a 1", COUNT), REDIS_REPLY_ERROR, "ERR value is not an integer or out of range script: "));
  step("script");

  redisAppendCommand(c, "BLPOP app:queue 60");
  int done = 0;
  CHECK(redisBufferWrite(c, &done) == REDIS_OK && done);
  for (int waits = 0;; waits++) {
    r = redisCommand(other, "INFO clients");
    CHECK(r && r->type == REDIS_REPLY_STRING);
    int blocked = strstr(r->str, "blocked_clients:1\r\n") != NULL;
    freeReplyObject(r);
    if (blocked) break;
    CHECK(waits < 6000);
    nanosleep(&moment, NULL);
  }
  CHECK(is(redisCommand(other, "RPUSH app:queue job"), REDIS_REPLY_INTEGER, "1"));
  next_array(c, 2, (const char *[]){"app:queue", "job"});
  CHECK(is(redisCommand(c, "BLPOP app:queue 0.02"), REDIS_REPLY_NIL, NULL));
  step("blocking pop");

  const size_t size = 8 << 20;
  char *value = malloc(size);
  CHECK(value != NULL);
  for (size_t i = 0; i < size; i++) value[i] = (char)i;
  CHECK(is(redisCommand(c, "SET app:big %b", value, size), REDIS_REPLY_STATUS, "OK"));
  r = redisCommand(c, "GET app:big");
  CHECK(r && r->type == REDIS_REPLY_STRING && (size_t)r->len == size && memcmp(r->str, value, size) == 0);
  freeReplyObject(r);
  free(value);
  step("big values");

  /* hiredis says that a connection is gone; redisReconnect is the program's to call. */
  r = redisCommand(c, "CLIENT ID");
  CHECK(r && r->type == REDIS_REPLY_INTEGER);
  CHECK(is(redisCommand(other, "CLIENT KILL ID %lld", r->integer), REDIS_REPLY_INTEGER, "1"));
  freeReplyObject(r);
  CHECK(redisCommand(c, "PING") == NULL && c->err != 0);
  CHECK(redisReconnect(c) == REDIS_OK);
  CHECK(is(redisCommand(c, "AUTH %s %s", user, password), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(c, "SET app:kept v"), REDIS_REPLY_STATUS, "OK"));
  puts("restart");
  fflush(stdout);
  CHECK(getchar() == '\n');
  CHECK(redisCommand(c, "PING") == NULL && c->err != 0);
  CHECK(redisReconnect(c) == REDIS_OK);
  CHECK(is(redisCommand(c, "AUTH %s %s", user, password), REDIS_REPLY_STATUS, "OK"));
  CHECK(is(redisCommand(c, "GET app:kept"), REDIS_REPLY_STRING, "v"));
  redisFree(c);
  redisFree(other);
  step("reconnect");
  return 0;
}
