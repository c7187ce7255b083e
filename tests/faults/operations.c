/* Preloaded below a program: counts what changes files under one folder, and what is sent, and lets one of these operations fail, kills
   the program at it, or writes down all of them. Children, forked or started, share the count.

   FAULTS names the file of the state below, which is mapped; faults_attach() names it to a running process. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { COUNT, FAIL, FAIL_ON, KILL_BEFORE, KILL_AFTER, KILL_HALF };
enum { CREATE, WRITE, FSYNC, RENAME, UNLINK, MKDIR, RMDIR, LINK, TRUNCATE, SEND, KINDS };

struct state {
  int64_t count;       /* operations so far */
  int64_t at;          /* the one that is meant, from 1 */
  int32_t mode, error; /* what is done to it, with which errno */
  int32_t kinds;       /* bits: which kinds count */
  int32_t fired;       /* how many failed; the kind of the first and its path */
  int32_t fired_kind;
  int32_t leader;      /* the process group that is killed besides that of the process itself */
  int32_t unused;
  int64_t of_kind[KINDS];
  char fired_path[4096];
  char folder[4096]; /* ends with a slash */
};

static struct state *state;
static __thread int inside;

#define REAL(name) \
  static __typeof__(name) *real; \
  if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

void faults_attach(const char *path) {
  int handle = open(path, O_RDWR | O_CLOEXEC);
  if (handle < 0) return;
  void *place = mmap(NULL, sizeof(struct state), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
  close(handle);
  if (place != MAP_FAILED) state = place;
}

void faults_lead(void) {
  if (state) state->leader = getpgrp();
}

__attribute__((constructor)) static void begin(void) {
  const char *path = getenv("FAULTS");
  if (path && *path) faults_attach(path);
}

static int of_handle(int handle, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
  ssize_t n = readlink(link, path, PATH_MAX - 1);
  if (n < 0) return 0;
  path[n] = 0;
  return 1;
}

static int absolute(int folder, const char *name, char *path) {
  if (name[0] == '/') {
    snprintf(path, PATH_MAX, "%s", name);
  } else {
    char base[PATH_MAX];
    if (folder == AT_FDCWD ? !getcwd(base, sizeof base) : !of_handle(folder, base)) return 0;
    if (snprintf(path, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) return 0;
  }
  return 1;
}

static int is_watched(const char *path) {
  size_t n = strlen(state->folder);
  return strncmp(path, state->folder, n) == 0 || (strncmp(path, state->folder, n - 1) == 0 && path[n - 1] == 0);
}

static void end(void) {
  if (state->leader > 1) kill(-state->leader, SIGKILL);
  kill(0, SIGKILL);
}

/* 0: goes on; 1: fails, errno is set; 2: is to be killed after it. */
static int before(int kind, const char *path) {
  if (!(state->kinds >> kind & 1)) return 0;
  int64_t n = __sync_add_and_fetch(&state->count, 1);
  __sync_add_and_fetch(&state->of_kind[kind], 1);
  int is_it = n == state->at || (state->mode == FAIL_ON && n > state->at);
  if (state->mode == COUNT || !is_it) return 0;
  if (__sync_fetch_and_add(&state->fired, 1) == 0) {
    state->fired_kind = kind;
    snprintf(state->fired_path, sizeof state->fired_path, "%s", path);
  }
  if (state->mode == KILL_AFTER || state->mode == KILL_HALF) return 2;
  if (state->mode == KILL_BEFORE) end();
  errno = state->error;
  return 1;
}

/* Which operation it is, if it is one to be looked at. The other name is that of a rename's target. */
#define WATCHED(kind, path, other, at, data, size, call) \
  int what = before(kind, path); \
  if (what == 1) return -1; \
  __typeof__(call) result = call; \
  int kept = errno; \
  if (what == 2) end(); \
  errno = kept; \
  return result

#define SKIP (!state || inside)

static int opened(int folder, const char *name, int flags, mode_t mode, int (*real)(int, const char *, int, ...)) {
  char path[PATH_MAX];
  struct stat status;
  if (SKIP || !(flags & (O_CREAT | O_TRUNC)) || !absolute(folder, name, path) || !is_watched(path))
    return real(folder, name, flags, mode);
  int there = stat(path, &status) == 0;
  if (there && !(flags & O_TRUNC)) return real(folder, name, flags, mode);
  WATCHED(there ? TRUNCATE : CREATE, path, "", 0, "", 0, real(folder, name, flags, mode));
}

#define MODE \
  mode_t mode = 0; \
  if (flags & (O_CREAT | __O_TMPFILE)) { \
    va_list rest; \
    va_start(rest, flags); \
    mode = va_arg(rest, mode_t); \
    va_end(rest); \
  }

int open(const char *name, int flags, ...) { MODE; REAL(openat); return opened(AT_FDCWD, name, flags, mode, real); }
int open64(const char *name, int flags, ...) { MODE; REAL(openat); return opened(AT_FDCWD, name, flags, mode, real); }
int openat(int folder, const char *name, int flags, ...) { MODE; REAL(openat); return opened(folder, name, flags, mode, real); }
int openat64(int folder, const char *name, int flags, ...) { MODE; REAL(openat); return opened(folder, name, flags, mode, real); }

ssize_t write(int handle, const void *data, size_t size) {
  REAL(write);
  char path[PATH_MAX];
  if (SKIP || handle < 3 || !of_handle(handle, path) || path[0] != '/' || !is_watched(path)) return real(handle, data, size);
  int64_t at = fcntl(handle, F_GETFL) & O_APPEND ? lseek(handle, 0, SEEK_END) : lseek(handle, 0, SEEK_CUR);
  WATCHED(WRITE, path, "", at, data, result, real(handle, data, what && state->mode == KILL_HALF ? size / 2 : size));
}

/* To whatever a socket leads: it is under no folder, and counts only where it is asked for. */
ssize_t send(int handle, const void *data, size_t size, int flags) {
  REAL(send);
  if (SKIP) return real(handle, data, size, flags);
  WATCHED(SEND, "", "", 0, "", 0, real(handle, data, size, flags));
}

ssize_t pwrite64(int handle, const void *data, size_t size, off_t at) {
  REAL(pwrite64);
  char path[PATH_MAX];
  if (SKIP || !of_handle(handle, path) || path[0] != '/' || !is_watched(path)) return real(handle, data, size, at);
  WATCHED(WRITE, path, "", at, data, result, real(handle, data, size, at));
}
ssize_t pwrite(int handle, const void *data, size_t size, off_t at) { return pwrite64(handle, data, size, at); }

#define ON_HANDLE(name) \
  int name(int handle) { \
    REAL(name); \
    char path[PATH_MAX]; \
    if (SKIP || !of_handle(handle, path) || !is_watched(path)) return real(handle); \
    WATCHED(FSYNC, path, "", 0, "", 0, real(handle)); \
  }
ON_HANDLE(fsync)
ON_HANDLE(fdatasync)

int ftruncate64(int handle, off_t size) {
  REAL(ftruncate64);
  char path[PATH_MAX];
  if (SKIP || !of_handle(handle, path) || !is_watched(path)) return real(handle, size);
  WATCHED(TRUNCATE, path, "", size, "", 0, real(handle, size));
}
int ftruncate(int handle, off_t size) { return ftruncate64(handle, size); }
int truncate64(const char *name, off_t size) {
  REAL(truncate64);
  char path[PATH_MAX];
  if (SKIP || !absolute(AT_FDCWD, name, path) || !is_watched(path)) return real(name, size);
  WATCHED(TRUNCATE, path, "", size, "", 0, real(name, size));
}
int truncate(const char *name, off_t size) { return truncate64(name, size); }

int renameat(int from_folder, const char *from, int to_folder, const char *to) {
  REAL(renameat);
  char path[PATH_MAX], other[PATH_MAX];
  if (SKIP || !absolute(from_folder, from, path) || !absolute(to_folder, to, other) || !(is_watched(path) || is_watched(other)))
    return real(from_folder, from, to_folder, to);
  WATCHED(RENAME, path, other, 0, "", 0, real(from_folder, from, to_folder, to));
}
int rename(const char *from, const char *to) { return renameat(AT_FDCWD, from, AT_FDCWD, to); }

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags) {
  REAL(linkat);
  char path[PATH_MAX], other[PATH_MAX];
  if (SKIP || !absolute(from_folder, from, path) || !absolute(to_folder, to, other) || !is_watched(other))
    return real(from_folder, from, to_folder, to, flags);
  WATCHED(LINK, path, other, 0, "", 0, real(from_folder, from, to_folder, to, flags));
}
int link(const char *from, const char *to) { return linkat(AT_FDCWD, from, AT_FDCWD, to, 0); }

int unlinkat(int folder, const char *name, int flags) {
  REAL(unlinkat);
  char path[PATH_MAX];
  if (SKIP || !absolute(folder, name, path) || !is_watched(path)) return real(folder, name, flags);
  WATCHED(flags & AT_REMOVEDIR ? RMDIR : UNLINK, path, "", 0, "", 0, real(folder, name, flags));
}
int unlink(const char *name) { return unlinkat(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return unlinkat(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name) {
  struct stat status;
  return lstat(name, &status) == 0 && S_ISDIR(status.st_mode) ? rmdir(name) : unlink(name);
}

int mkdirat(int folder, const char *name, mode_t mode) {
  REAL(mkdirat);
  char path[PATH_MAX];
  if (SKIP || !absolute(folder, name, path) || !is_watched(path)) return real(folder, name, mode);
  WATCHED(MKDIR, path, "", 0, "", 0, real(folder, name, mode));
}
int mkdir(const char *name, mode_t mode) { return mkdirat(AT_FDCWD, name, mode); }
