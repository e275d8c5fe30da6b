#include "study/folder/folder_lock.hpp"

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>
#include <vector>

using namespace trainctl;
using namespace trainctl::study;

namespace {

void write_lock(const fs::path& folder, const std::string& content) {
  std::ofstream(folder / FolderLock::kFileName) << content;
}

std::string content(const fs::path& folder) {
  return read_file(folder / FolderLock::kFileName, 1 << 16, ReadFailure::resource);
}

std::string error_of(const fs::path& folder) {
  try {
    const FolderLock lock(folder);
  } catch (const Error& error) {
    return std::to_string(error.exit_code()) + " " + error.what();
  }
  return "taken";
}

/// Returns a child process of this test that has exited and was reaped.
LockHolder exited_process() {
  LockHolder holder = this_process();
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  holder.pid = pid;
  return holder;
}

struct Pipe {
  std::array<int, 2> ends{};
  Pipe() { REQUIRE(::pipe(ends.data()) == 0); }
  ~Pipe() {
    for (const int fd : ends) ::close(fd);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
};

[[noreturn]] void race(const fs::path& folder, const Pipe& start, const Pipe& result,
                       const Pipe& end) {
  char byte = 0;
  ::close(start.ends[1]);
  ::close(end.ends[1]);
  (void)!::read(start.ends[0], &byte, 1);
  try {
    const FolderLock lock(folder);
    (void)!::write(result.ends[1], "w", 1);
    (void)!::read(end.ends[0], &byte, 1);
  } catch (const Error& error) {
    (void)!::write(result.ends[1], error.exit_code() == 11 ? "l" : "?", 1);
  }
  ::_exit(0);
}

/// Lets `runners` processes compete for one folder, and returns their sorted results: "lw".
std::string race_for(const fs::path& folder, int runners) {
  Pipe start;
  Pipe result;
  Pipe end;
  std::vector<pid_t> pids;
  for (int i = 0; i < runners; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) race(folder, start, result, end);
    pids.push_back(pid);
  }
  ::close(std::exchange(start.ends[1], -1));
  std::string results;
  char byte = 0;
  while (results.size() < pids.size() && ::read(result.ends[0], &byte, 1) == 1) results += byte;
  ::close(std::exchange(end.ends[1], -1));
  for (const pid_t pid : pids) ::waitpid(pid, nullptr, 0);
  std::ranges::sort(results);
  return results;
}

}  // namespace

TEST_CASE("FolderLock: the file is one line about its holder, removed at the end") {
  const TempFolder folder;
  {
    const FolderLock lock(folder.path());
    const auto holder = read_lock_line(content(folder.path()));
    REQUIRE(holder);
    const LockHolder here = this_process();
    CHECK(holder->pid == ::getpid());
    CHECK(holder->host == here.host);
    CHECK(holder->boot_id == here.boot_id);
    CHECK(holder->pid_namespace == here.pid_namespace);
    CHECK(holder->started == here.started);
    CHECK_FALSE(holder->since.empty());
    const std::string text = content(folder.path());
    CHECK(std::ranges::count(text, '\n') == 1);
    CHECK_THAT(error_of(folder.path()), StartsWith("11 ") && Contains("--break-lock") &&
                                            Contains("pid " + std::to_string(::getpid())));
  }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("FolderLock: the lock of an exited process is taken over") {
  const TempFolder folder;
  write_lock(folder.path(), lock_line(exited_process()));
  {
    const FolderLock lock(folder.path());
    CHECK(read_lock_line(content(folder.path()))->pid == ::getpid());
  }
  CHECK(fs::is_empty(folder.path()));
}

TEST_CASE("FolderLock: unfinished files of an exited run are removed with its lock") {
  const TempFolder folder;
  const std::vector<std::string> temporary{
      ".result.json.tmp.17", ".result.json.reserved.17", "logs/.rank_0.error.json.tmp.4",
      "checkpoints/epoch=0000-step=000003/.rank_0.part.tmp.99"};
  const std::vector<std::string> kept{
      "result.json", ".tmp.7",           "notes.tmp.7", ".notes.tmp.x",
      ".notes.tmp.", ".notes.reserved.", ".reserved.7", "checkpoints/best.safetensors"};
  const auto plant_all = [&](const std::vector<std::string>& names) {
    for (const std::string& name : names) {
      fs::create_directories((folder / name).parent_path());
      std::ofstream(folder / name) << "x";
    }
  };
  const auto there = [&](const std::string& name) { return fs::exists(folder / name); };
  plant_all(temporary);
  plant_all(kept);
  { const FolderLock unlocked(folder.path()); }
  CHECK(std::ranges::all_of(temporary, there));  // no holder is known to have exited
  write_lock(folder.path(), lock_line(exited_process()));
  const FolderLock lock(folder.path());
  CHECK(std::ranges::none_of(temporary, there));
  CHECK(std::ranges::all_of(kept, there));
}

TEST_CASE("why_exited: a lock from before the last boot is stale for any pid") {
  LockHolder holder = this_process();
  holder.host = "node7";
  LockHolder here = holder;
  holder.boot_id = "00000000-0000-0000-0000-000000000000";
  CHECK_THAT(why_exited(holder, here).value_or(""), Contains("has rebooted"));
  here.host = holder.host = "localhost";  // many machines have this name
  CHECK_FALSE(why_exited(holder, here));
}

TEST_CASE("why_exited: a lock is stale if another process has its pid") {
  LockHolder holder = this_process();
  holder.started -= 1;
  CHECK_THAT(why_exited(holder, this_process()).value_or(""), Contains("another process"));
  const TempFolder folder;
  write_lock(folder.path(), lock_line(holder));
  CHECK(error_of(folder.path()) == "taken");
}

TEST_CASE("why_exited: a lock is not stale if its holder cannot be checked") {
  const LockHolder here = this_process();
  LockHolder elsewhere = exited_process();
  elsewhere.host += "-not";
  LockHolder contained = exited_process();
  contained.pid_namespace += 1;
  LockHolder unknown = exited_process();
  unknown.pid_namespace = 0;
  LockHolder bootless = exited_process();
  bootless.boot_id.clear();
  for (const LockHolder& holder : {elsewhere, contained, unknown, bootless}) {
    CHECK_FALSE(why_exited(holder, here));
    const TempFolder folder;
    write_lock(folder.path(), lock_line(holder));
    CHECK_THAT(error_of(folder.path()),
               StartsWith("11 ") && Contains("pid " + std::to_string(holder.pid) + " on "));
  }
  CHECK_FALSE(why_exited(here, here));
}

TEST_CASE("FolderLock: an unreadable lock is respected without --break-lock") {
  const std::string valid = lock_line(exited_process());
  for (const std::string& text :
       {std::string(), std::string("\n"), std::string("pid 7 on here since noon\n"),
        std::string("[]\n"), std::string("{\"pid\":1}\n"), valid.substr(0, valid.size() / 2),
        std::string("\x1b[31m\xff"), std::string(100'000, 'x')}) {
    const TempFolder folder;
    write_lock(folder.path(), text);
    CHECK_THAT(error_of(folder.path()), StartsWith("11 ") && Contains("another run"));
    CHECK_THAT(error_of(folder.path()), !Contains("\x1b"));
    {
      const FolderLock lock(folder.path(), IfLocked::take_over);
      CHECK(read_lock_line(content(folder.path())));
    }
    CHECK(fs::is_empty(folder.path()));
  }
}

TEST_CASE("FolderLock: a holder does not remove a lock that was taken from it") {
  const TempFolder folder;
  LockHolder other = this_process();
  other.since = "2001-01-01T00:00:00Z";
  {
    const FolderLock lock(folder.path());
    write_lock(folder.path(), lock_line(other));
  }
  CHECK(content(folder.path()) == lock_line(other));
}

TEST_CASE("FolderLock: one of several competing processes gets the lock, also a stale one") {
  const std::string stale = lock_line(exited_process());
  for (int round = 0; round < 100; ++round) {
    const TempFolder folder;
    if (round % 2 == 1) write_lock(folder.path(), stale);
    REQUIRE(race_for(folder.path(), 2) == "lw");
    REQUIRE(fs::is_empty(folder.path()));
  }
  for (int round = 0; round < 20; ++round) {
    const TempFolder folder;
    write_lock(folder.path(), stale);
    REQUIRE(race_for(folder.path(), 4) == "lllw");
  }
}
