#include "base/machine/procfs.hpp"

#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>

using namespace trainctl;

TEST_CASE("read_process_stat: a process name may contain blanks, parentheses and line breaks") {
  const TempFolder folder;
  const std::string fields = " T 7 1 1 0 -1 4194304 100 0 7 0 300 200 0 0 20 0 4 0 12345 9000 8\n";
  for (const std::string name : {"worker", "a b", "a) S (b", "((", "one\ntwo", ""}) {
    put_text(folder.path() / "stat", "12 (" + name + ")" + fields);
    const auto stat = read_process_stat(folder.path());
    REQUIRE(stat);
    CHECK(stat->name == name);
    CHECK(stat->state == 'T');
    CHECK(stat->parent == 7);
    CHECK(stat->cpu_s == 500.0 / static_cast<double>(::sysconf(_SC_CLK_TCK)));
    CHECK(stat->start_ticks == 12345);
    CHECK(stat->rss_bytes == 8 * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  }
  for (const std::string text :
       {"", "12", "12 (worker", "12 )worker( S 1", "12 (worker) T 7 1 1"}) {
    put_text(folder.path() / "stat", text);
    CHECK_FALSE(read_process_stat(folder.path()));
  }
}

TEST_CASE("read_process_stat: an exited child is a zombie until it is waited for") {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  REQUIRE(child > 0);
  siginfo_t info{};
  REQUIRE(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT) == 0);
  const auto stat = read_process_stat(child);
  REQUIRE(stat);
  CHECK(stat->state == 'Z');
  CHECK(stat->parent == ::getpid());
  CHECK(stat->age_s() > -1);
  CHECK(stat->age_s() < 600);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  CHECK_FALSE(read_process_stat(child));
}

TEST_CASE("first_line_of: a file that cannot be read gives an empty text") {
  const TempFolder folder;
  put_text(folder.path() / "two", "first\nsecond\n");
  CHECK(first_line_of(folder.path() / "two") == "first");
  CHECK(first_line_of(folder.path() / "none").empty());
}

TEST_CASE("read_process_stat: a file that cannot be read counts as an ended process") {
  // A folder can be opened like a file, but reading it fails, as when a process ends in between.
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() / "stat");
  CHECK_FALSE(read_process_stat(folder.path()));
}
