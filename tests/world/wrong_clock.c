// A clock that is wrong: preloaded into a program, this adds SVC_TEST_SECONDS_AHEAD to the time of day that it is told. Time
// that is measured, not told, goes on as it is. Nothing here allocates or looks up a symbol: a program whose allocator asks
// for the time while it starts would wait for itself.

#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static time_t ahead;

__attribute__((constructor)) static void read_ahead(void) {
    const char *seconds = getenv("SVC_TEST_SECONDS_AHEAD");
    ahead = seconds ? strtol(seconds, NULL, 10) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    int failed = (int)syscall(SYS_gettimeofday, now, zone);
    if (!failed) now->tv_sec += ahead;
    return failed;
}

time_t time(time_t *now) {
    struct timespec spec;
    clock_gettime(CLOCK_REALTIME, &spec);
    if (now) *now = spec.tv_sec;
    return spec.tv_sec;
}
