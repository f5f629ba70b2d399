/*
 * Records what a program does to the files below POWER_CUT_ROOT, in order, in the file
 * POWER_CUT_TRACE; loaded by LD_PRELOAD. tests/support/faults/power_cut.py reads the trace and makes
 * the folder that a power cut would have left.
 *
 * A record is an operation, two numbers, and the lengths of two strings that follow:
 *
 *   l ino kind  path          a file (kind 0) or folder (1) appeared at a path
 *   k ino 0     path          a file has a second name
 *   r 0   0     path path     a name became another one
 *   u 0   0     path          a name is gone
 *   w ino at    data          bytes were written
 *   t ino size                a file was truncated or extended
 *   s ino 0                   a file, or the names in a folder, were synced
 *   a 0   0     data          the program wrote to standard output
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#define MOST_FILES 65536
#define REAL(name) ((__typeof__(&name))real(#name))

struct __attribute__((packed)) record {
    char operation;
    uint64_t inode;
    int64_t number;
    uint32_t first, second;
};

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int trace = -1;
static unsigned char traced[MOST_FILES];

static void *real(const char *name) {
    return dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void begin(void) {
    const char *below = getenv("POWER_CUT_ROOT"), *into = getenv("POWER_CUT_TRACE");
    if (below == NULL || into == NULL) return;
    strncpy(root, below, sizeof root - 1);
    root_length = strlen(root);
    trace = REAL(open)(into, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
}

/* One write for each record, so that a kill leaves whole records. */
static void note(char operation, uint64_t inode, int64_t number, const void *first, size_t n_first,
                 const void *second, size_t n_second) {
    struct record head = {operation, inode, number, (uint32_t)n_first, (uint32_t)n_second};
    size_t size = sizeof head + n_first + n_second;
    char *raw = malloc(size);
    if (trace < 0 || raw == NULL) abort();
    memcpy(raw, &head, sizeof head);
    if (n_first) memcpy(raw + sizeof head, first, n_first);
    if (n_second) memcpy(raw + sizeof head + n_first, second, n_second);
    if (REAL(write)(trace, raw, size) != (ssize_t)size) abort();
    free(raw);
}

/* Write the absolute path of `name` to `path`, and tell whether it lies below the root. */
static int resolve(int folder, const char *name, char *path) {
    if (trace < 0) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char parent[PATH_MAX], link[64];
        ssize_t length;
        snprintf(link, sizeof link, folder == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", folder);
        length = readlink(link, parent, sizeof parent - 1);
        if (length < 0) return 0;
        parent[length] = 0;
        if (strlen(parent) + strlen(name) + 2 > PATH_MAX) return 0;
        strcpy(path, parent);
        strcat(path, "/");
        strcat(path, name);
    }
    return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || !path[root_length]);
}

static int is_traced(int fd) {
    return trace >= 0 && fd >= 0 && fd < MOST_FILES && traced[fd];
}

static uint64_t inode_of(int fd) {
    struct stat found;
    return fstat(fd, &found) == 0 ? found.st_ino : 0;
}

static int opened(int folder, const char *name, int flags, mode_t mode) {
    char path[PATH_MAX];
    struct stat before, after;
    int there, fd;
    if (!resolve(folder, name, path)) return REAL(openat)(folder, name, flags, mode);
    pthread_mutex_lock(&one_at_a_time);
    there = stat(path, &before) == 0;
    fd = REAL(openat)(folder, name, flags, mode);
    if (fd >= 0 && fd < MOST_FILES && fstat(fd, &after) == 0) {
        traced[fd] = 1;
        if (!there) note('l', after.st_ino, 0, path, strlen(path), NULL, 0);
        else if (flags & O_TRUNC) note('t', after.st_ino, 0, NULL, 0, NULL, 0);
    }
    pthread_mutex_unlock(&one_at_a_time);
    return fd;
}

#define MODE(flags) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list rest; \
        va_start(rest, flags); \
        mode = va_arg(rest, mode_t); \
        va_end(rest); \
    }

int open(const char *name, int flags, ...) {
    MODE(flags)
    return opened(AT_FDCWD, name, flags, mode);
}
int open64(const char *name, int flags, ...) {
    MODE(flags)
    return opened(AT_FDCWD, name, flags | O_LARGEFILE, mode);
}
int openat(int folder, const char *name, int flags, ...) {
    MODE(flags)
    return opened(folder, name, flags, mode);
}
int openat64(int folder, const char *name, int flags, ...) {
    MODE(flags)
    return opened(folder, name, flags | O_LARGEFILE, mode);
}

int close(int fd) {
    if (fd >= 0 && fd < MOST_FILES) traced[fd] = 0;
    return REAL(close)(fd);
}

ssize_t write(int fd, const void *data, size_t size) {
    ssize_t written;
    if (fd == STDOUT_FILENO && trace >= 0) {
        pthread_mutex_lock(&one_at_a_time);
        note('a', 0, 0, data, size, NULL, 0);
        pthread_mutex_unlock(&one_at_a_time);
        return REAL(write)(fd, data, size);
    }
    if (!is_traced(fd)) return REAL(write)(fd, data, size);
    pthread_mutex_lock(&one_at_a_time);
    written = REAL(write)(fd, data, size);
    if (written > 0) note('w', inode_of(fd), lseek(fd, 0, SEEK_CUR) - written, data, written, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return written;
}

static ssize_t written_at(int fd, const void *data, size_t size, off_t at) {
    ssize_t written;
    if (!is_traced(fd)) return REAL(pwrite)(fd, data, size, at);
    pthread_mutex_lock(&one_at_a_time);
    written = REAL(pwrite)(fd, data, size, at);
    if (written > 0) note('w', inode_of(fd), at, data, written, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return written;
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return written_at(fd, data, size, at); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return written_at(fd, data, size, at); }

/* Callers then copy by read and write. */
ssize_t sendfile(int out, int in, off_t *at, size_t size) {
    ssize_t (*do_it)(int, int, off_t *, size_t) = real("sendfile");
    if (!is_traced(out)) return do_it(out, in, at, size);
    errno = ENOTSOCK;
    return -1;
}
ssize_t sendfile64(int out, int in, off64_t *at, size_t size) { return sendfile(out, in, at, size); }

static int cut(int fd, off_t size) {
    int failed;
    if (!is_traced(fd)) return REAL(ftruncate)(fd, size);
    pthread_mutex_lock(&one_at_a_time);
    failed = REAL(ftruncate)(fd, size);
    if (!failed) note('t', inode_of(fd), size, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return failed;
}
int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }

static int synced(int fd, int (*sync)(int)) {
    int failed;
    if (!is_traced(fd)) return sync(fd);
    pthread_mutex_lock(&one_at_a_time);
    failed = sync(fd);
    if (!failed) note('s', inode_of(fd), 0, NULL, 0, NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return failed;
}
int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

static int made(int folder, const char *name, mode_t mode) {
    char path[PATH_MAX];
    struct stat found;
    int failed;
    if (!resolve(folder, name, path)) return REAL(mkdirat)(folder, name, mode);
    pthread_mutex_lock(&one_at_a_time);
    failed = REAL(mkdirat)(folder, name, mode);
    if (!failed && stat(path, &found) == 0) note('l', found.st_ino, 1, path, strlen(path), NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return failed;
}
int mkdir(const char *name, mode_t mode) { return made(AT_FDCWD, name, mode); }
int mkdirat(int folder, const char *name, mode_t mode) { return made(folder, name, mode); }

static int removed(int folder, const char *name, int flags) {
    char path[PATH_MAX];
    int failed;
    if (!resolve(folder, name, path)) return REAL(unlinkat)(folder, name, flags);
    pthread_mutex_lock(&one_at_a_time);
    failed = REAL(unlinkat)(folder, name, flags);
    if (!failed) note('u', 0, 0, path, strlen(path), NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return failed;
}
int unlink(const char *name) { return removed(AT_FDCWD, name, 0); }
int rmdir(const char *name) { return removed(AT_FDCWD, name, AT_REMOVEDIR); }
int remove(const char *name) { return removed(AT_FDCWD, name, 0); }
int unlinkat(int folder, const char *name, int flags) { return removed(folder, name, flags); }

static int moved(int folder, const char *from, int other, const char *to) {
    char old[PATH_MAX], new[PATH_MAX];
    int failed;
    if (!resolve(folder, from, old) || !resolve(other, to, new)) return REAL(renameat)(folder, from, other, to);
    pthread_mutex_lock(&one_at_a_time);
    failed = REAL(renameat)(folder, from, other, to);
    if (!failed) note('r', 0, 0, old, strlen(old), new, strlen(new));
    pthread_mutex_unlock(&one_at_a_time);
    return failed;
}
int rename(const char *from, const char *to) { return moved(AT_FDCWD, from, AT_FDCWD, to); }
int renameat(int folder, const char *from, int other, const char *to) { return moved(folder, from, other, to); }

static int linked(int folder, const char *from, int other, const char *to, int flags) {
    char path[PATH_MAX];
    struct stat found;
    int failed;
    if (!resolve(other, to, path)) return REAL(linkat)(folder, from, other, to, flags);
    pthread_mutex_lock(&one_at_a_time);
    failed = REAL(linkat)(folder, from, other, to, flags);
    if (!failed && stat(path, &found) == 0) note('k', found.st_ino, 0, path, strlen(path), NULL, 0);
    pthread_mutex_unlock(&one_at_a_time);
    return failed;
}
int link(const char *from, const char *to) { return linked(AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int folder, const char *from, int other, const char *to, int flags) {
    return linked(folder, from, other, to, flags);
}
