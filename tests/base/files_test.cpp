#include "base/files.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/file_limit.hpp"
#include "support/temp_folder.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <thread>
#include <vector>

using namespace trainctl;

namespace {

int entries_in(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// Makes a signal interrupt system calls, without another effect, during its lifetime.
class Interruptions {
 public:
  explicit Interruptions(int signal = SIGUSR1) : signal_(signal) {
    struct sigaction nothing {};
    nothing.sa_handler = [](int) {};
    ::sigaction(signal_, &nothing, &before_);
  }
  ~Interruptions() { ::sigaction(signal_, &before_, nullptr); }
  Interruptions(const Interruptions&) = delete;
  Interruptions& operator=(const Interruptions&) = delete;

 private:
  int signal_;
  struct sigaction before_ {};
};

/// Interrupts a system call that blocks, every 50 ms during its lifetime.
class RepeatedInterruptions {
 public:
  RepeatedInterruptions() { start_timer(50'000); }
  ~RepeatedInterruptions() { start_timer(0); }
  RepeatedInterruptions(const RepeatedInterruptions&) = delete;
  RepeatedInterruptions& operator=(const RepeatedInterruptions&) = delete;

 private:
  /// Zero stops the timer.
  static void start_timer(suseconds_t microseconds) {
    const itimerval timer{{0, microseconds}, {0, microseconds}};
    ::setitimer(ITIMER_REAL, &timer, nullptr);
  }

  Interruptions interruptions_{SIGALRM};
};

/// Reads a pipe to its end and interrupts the writer's call after each read.
std::string drain(const Fd& pipe, pthread_t writer) {
  std::string all;
  std::array<char, 5000> buffer{};
  while (true) {
    const ssize_t count = ::read(pipe.get(), buffer.data(), buffer.size());
    if (count <= 0) return all;
    all.append(buffer.data(), static_cast<std::size_t>(count));
    ::pthread_kill(writer, SIGUSR1);
  }
}

}  // namespace

// This is the first test of the file: the next ones would never end if write_all() repeated a write
// that succeeded. Here such a loop fills the pipe and blocks, and the interruption makes it throw.
TEST_CASE("write_all: the bytes are written once") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const Fd out(ends[0]);
  Fd in(ends[1]);
  {
    const RepeatedInterruptions interruptions;
    write_all(in.get(), "written ", "pipe");
    write_all(in.get(), "once", "pipe");
  }
  in.reset();
  std::array<char, 100> buffer{};
  const ssize_t count = ::read(out.get(), buffer.data(), buffer.size());
  REQUIRE(count >= 0);
  CHECK(std::string(buffer.data(), static_cast<std::size_t>(count)) == "written once");
}

TEST_CASE("write_gathered: pieces are written in order despite interrupted system calls") {
  std::string all;
  for (int i = 0; i < 2'000'000; ++i) all.push_back(static_cast<char>(i % 251));
  std::vector<std::string_view> pieces;
  std::size_t size = 0;
  for (std::size_t at = 0; at < all.size(); at += size, size = (size * 3 + 1) % 1511)
    pieces.push_back(std::string_view(all).substr(at, size));
  const Interruptions interruptions;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const Fd out(ends[0]);
  Fd in(ends[1]);
  std::string received;
  std::thread reader([&, writer = ::pthread_self()] { received = drain(out, writer); });
  write_gathered(in.get(), pieces, "pipe");
  in.reset();
  reader.join();
  CHECK(received == all);
}

TEST_CASE("write_gathered: empty pieces write nothing") {
  const TempFolder folder;
  const std::vector<std::string_view> nothing(3000);
  write_atomically(folder / "a", [&](int fd) { write_gathered(fd, nothing, "a"); });
  CHECK(fs::file_size(folder / "a") == 0);
}

TEST_CASE("write_atomically: the file is replaced, and no temporary file is left") {
  const TempFolder folder;
  write_atomically(folder / "a.json", "one");
  write_atomically(folder / "a.json", "two");
  CHECK(read_file(folder / "a.json", 100, ReadFailure::data) == "two");
  CHECK(entries_in(folder.path()) == 1);
}

TEST_CASE("write_atomically: a full disk is a resource error, and the old file is kept") {
  if (::access("/dev/full", W_OK) != 0) skip("no /dev/full");
  const TempFolder folder;
  write_atomically(folder / "a.json", "old");
  const Fd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  try {
    write_atomically(folder / "a.json", [&](int) { write_all(full.get(), "new", "a.json"); });
    FAIL("nothing was thrown");
  } catch (const Error& error) {
    CHECK(error.exit_code() == 11);
    CHECK_THAT(error.what(), Contains("a.json") && Contains("No space left") && Contains("--out"));
  }
  CHECK(read_file(folder / "a.json", 100, ReadFailure::data) == "old");
  CHECK(entries_in(folder.path()) == 1);
}

TEST_CASE("read_file: the error states the cause") {
  const TempFolder folder;
  CHECK_THROWS_WITH(read_file(folder / "none", 10, ReadFailure::config), Contains("No such file"));
  CHECK_THROWS_WITH(read_file(folder.path(), 10, ReadFailure::config), Contains("it is a folder"));
  CHECK_THROWS_WITH(read_file(folder / "\x1b[2J\n", 10, ReadFailure::config),
                    Contains("\\x1b[2J\\x0a: No such"));
  write_atomically(folder / "big", "0123456789ab");
  CHECK_THROWS_WITH(read_file(folder / "big", 10, ReadFailure::config),
                    Contains("limit of 10 bytes"));
}

TEST_CASE("AppendFile: lines of several openings stay in order") {
  const TempFolder folder;
  AppendFile(folder / "m.jsonl").append_line("1");
  AppendFile(folder / "m.jsonl").append_line("2");
  CHECK(read_file(folder / "m.jsonl", 100, ReadFailure::data) == "1\n2\n");
}

TEST_CASE("is_path_error: I/O, network and permission errors are not path errors") {
  for (const int cause : {ENOENT, ENOTDIR, ELOOP, EISDIR, ENXIO}) CHECK(is_path_error(cause));
  for (const int cause : {EIO, ESTALE, ETIMEDOUT, EACCES, EPERM, EMFILE, ENOMEM, EUCLEAN, EREMOTEIO,
                          EHOSTDOWN, ENOTCONN})
    CHECK_FALSE(is_path_error(cause));
}

TEST_CASE("AppendFile: a line that is written only in part is removed") {
  TempFolder folder;
  AppendFile file(folder / "m.jsonl");
  file.append_line("first");
  bool failed = false;
  {
    const FileLimit limit(10);
    try {
      file.append_line("second");
    } catch (const Error& error) {
      failed = error.kind() == ErrorKind::resource;
    }
  }
  CHECK(failed);
  file.append_line("third");
  CHECK(read_file(folder / "m.jsonl", 100, ReadFailure::data) == "first\nthird\n");
}

TEST_CASE("ReservedFile: space is allocated at once, and the file appears when it is published") {
  TempFolder folder;
  const auto path = folder / "result.json";
  {
    ReservedFile reserved(path, 1 << 16);
    CHECK_FALSE(fs::exists(path));
    CHECK(fs::file_size(fs::directory_iterator(folder.path())->path()) == 1 << 16);
    reserved.publish("{}\n");
    CHECK(read_file(path, 10, ReadFailure::config) == "{}\n");
  }
  CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 1);
}

TEST_CASE("ReservedFile: an unpublished file is removed") {
  TempFolder folder;
  { const ReservedFile reserved(folder / "a", 4096); }
  CHECK(fs::is_empty(folder.path()));
  CHECK_THROWS_WITH(ReservedFile(folder / "none/a", 4096), Contains("cannot write"));
}

TEST_CASE("ReservedFile: write_atomically may replace the file before it is published") {
  TempFolder folder;
  const auto path = folder / "result.json";
  write_atomically(path, "first");
  ReservedFile reserved(path, 1 << 16);
  write_atomically(path, "unfinished");
  CHECK(read_file(path, 100, ReadFailure::resource) == "unfinished");
  reserved.publish("done");
  CHECK(read_file(path, 100, ReadFailure::resource) == "done");
  CHECK(entries_in(folder.path()) == 1);
}

TEST_CASE("read_file: a pipe such as the shell's <(command) is read to its end") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  const Fd reader(ends[0]);
  std::thread writer([end = ends[1]] {
    const Fd writing(end);
    write_all(writing.get(), std::string(200'000, 'x'), "pipe");
  });
  const fs::path path = "/proc/self/fd/" + std::to_string(reader.get());
  CHECK(read_file(path, 1 << 20, ReadFailure::config) == std::string(200'000, 'x'));
  writer.join();
}

TEST_CASE("read_file: waiting for a pipe that does not end has a time limit") {
  TempFolder folder;
  const fs::path pipe = folder / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(read_file(pipe, 1000, ReadFailure::config).empty());  // there is no writer
  const Fd both(::open(pipe.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(both.valid());
  CHECK_THROWS_WITH(read_file(pipe, 1000, ReadFailure::config),
                    Contains("pipe: the pipe was not closed within"));
}

TEST_CASE("read_file: a file that is not a regular file on a disk is rejected") {
  for (const char* path : {"/dev/zero", "/dev/tty", "/dev/null"})
    CHECK_THROWS_WITH(read_file(path, 1000, ReadFailure::data),
                      StartsWith(std::string("cannot read ") + path));
  if (::access("/proc/kmsg", R_OK) != 0) skip("no permission to read /proc/kmsg");
  CHECK_THROWS_WITH(read_file("/proc/kmsg", 1 << 20, ReadFailure::config),
                    StartsWith("cannot read /proc/kmsg: "));
}

TEST_CASE("AppendFile: a pipe without a reader is an error") {
  TempFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH(AppendFile(folder / "pipe"), StartsWith("cannot write "));
}
