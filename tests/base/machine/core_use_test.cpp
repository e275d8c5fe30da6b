#include "base/machine/machine.hpp"
#include "base/machine/procfs.hpp"
#include "base/machine/resource_usage.hpp"
#include "support/catch.hpp"
#include "support/put_text.hpp"
#include "support/temp_folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>
#include <string>

using namespace trainctl;

namespace {

/// Returns /proc/stat of a machine whose cores each have these ticks: user, idle, steal.
std::string stat_text(int user, int idle, int steal) {
  std::string text = "cpu  9 9 9 9 9 9 9 9 0 0\n";
  for (const int core : allowed_cores())
    text += "cpu" + std::to_string(core) + " " + std::to_string(user) + " 0 0 " +
            std::to_string(idle) + " 0 0 0 " + std::to_string(steal) + " 0 0\n";
  return text + "intr 1\n";
}

double cores() { return static_cast<double>(allowed_cores().size()); }

}  // namespace

TEST_CASE("read_core_times: only the cores of this process are counted") {
  const TempFolder root;
  CHECK_FALSE(read_core_times(root.path()));
  put_text(root / "proc/stat", stat_text(200, 300, 100) + "cpu99999 7 7 7 7 7 7 7 7\n");
  const auto times = read_core_times(root.path());
  REQUIRE(times);
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  CHECK(times->busy_s == Approx(200 * tick * cores()));
  CHECK(times->idle_s == Approx(300 * tick * cores()));
  CHECK(times->stolen_s == Approx(100 * tick * cores()));
  CHECK(times->run_s > 0);
}

TEST_CASE("read_core_times: other children of the same parent belong to the run") {
  const TempFolder root;
  put_text(root / "proc/stat", stat_text(200, 300, 100));
  const auto alone = read_core_times(root.path());
  const std::string parent = std::to_string(::getppid());
  put_text(root / "proc" / parent / "task" / parent / "children", "999999 ");
  put_text(root / "proc/999999/stat",
           "999999 (a (rank)) S 1 1 1 0 -1 4194304 100 0 7 0 500000 500000 0 0 20 0 4 0 1 0 0\n");
  const auto together = read_core_times(root.path());
  REQUIRE(alone);
  REQUIRE(together);
  const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
  CHECK(together->run_s - alone->run_s >= 1'000'000 * tick);
}

TEST_CASE("read_core_times: a damaged /proc/stat gives no times") {
  const TempFolder root;
  for (const char* text : {"", "cpu\n", "cpu0 1 2\n", "cpux 1 2 3 4 5 6 7 8\n", "nonsense\n"}) {
    CAPTURE(text);
    put_text(root / "proc/stat", text);
    CHECK_FALSE(read_core_times(root.path()));
  }
}

TEST_CASE("core_use: CPU time that the run did not use belongs to other processes") {
  const CoreTimes before{.busy_s = 100, .stolen_s = 1, .idle_s = 50, .run_s = 20};
  const auto use = core_use(before, {.busy_s = 107, .stolen_s = 2, .idle_s = 52, .run_s = 23});
  REQUIRE(use);
  CHECK(use->outside == Approx(0.4));
  CHECK(use->stolen == Approx(0.1));
  CHECK(use->idle == Approx(0.2));
  const auto more = core_use(before, {.busy_s = 101, .stolen_s = 1, .idle_s = 51, .run_s = 25});
  REQUIRE(more);
  CHECK(more->outside == 0);  // ticks are coarser than the CPU time of a process
  CHECK_FALSE(core_use(before, before));
  CHECK_FALSE(core_use(before, {.busy_s = 90, .stolen_s = 1, .idle_s = 70, .run_s = 20}));
}

TEST_CASE("core_use: only threads that are still alive count as waiting") {
  const TempFolder root;
  put_text(root / "proc/stat", stat_text(200, 300, 100));
  put_text(root / "proc/self/task/11/schedstat", "1000000000 2000000000 9\n");
  put_text(root / "proc/self/task/12/schedstat", "5000000000 7000000000 9\n");
  put_text(root / "proc/self/task/13/schedstat", "nonsense\n");
  const auto before = read_core_times(root.path());
  REQUIRE(before);
  CHECK(before->threads.size() == 2);
  put_text(root / "proc/stat", stat_text(2000, 3000, 1000));
  put_text(root / "proc/self/task/11/schedstat", "3000000000 3000000000 9\n");
  std::filesystem::remove_all(root / "proc/self/task/12");  // its 7 s no longer count
  put_text(root / "proc/self/task/14/schedstat", "1000000000 1000000000 9\n");
  const auto now = read_core_times(root.path());
  REQUIRE(now);
  const auto use = core_use(*before, *now);
  REQUIRE(use);
  REQUIRE(use->waited);
  CHECK(*use->waited == Approx(2.0 / 5));
}

TEST_CASE("is_contended: it is true if threads wait and others use cores, even with idle cores") {
  CHECK(is_contended({.outside = 0.26, .stolen = 0, .idle = 0.3, .waited = 0.25}));
  CHECK_FALSE(is_contended({.outside = 0.5, .stolen = 0, .idle = 0, .waited = 0.01}));
  CHECK_FALSE(is_contended({.outside = 0.05, .stolen = 0, .idle = 0, .waited = 0.5}));
}

TEST_CASE("is_contended: without wait times, few idle cores or stolen time decide") {
  CHECK(is_contended({.outside = 0.4, .stolen = 0, .idle = 0.02}));
  CHECK_FALSE(is_contended({.outside = 0.4, .stolen = 0, .idle = 0.3}));
  CHECK_FALSE(is_contended({.outside = 0.05, .stolen = 0, .idle = 0}));
  CHECK(is_contended({.outside = 0, .stolen = 0.2, .idle = 0.5}));
}

TEST_CASE("for_each_entry: every entry is visited, and a missing folder has none") {
  const TempFolder folder;
  put_text(folder / "a", "");
  put_text(folder / "b/c", "");
  std::set<std::string> names;
  const auto take = [&](const std::filesystem::path& entry) { names.insert(entry.filename()); };
  for_each_entry(folder / "none", take);
  CHECK(names.empty());
  for_each_entry(folder.path(), take);
  CHECK(names == std::set<std::string>{"a", "b"});
}

TEST_CASE("for_each_entry: a folder of /proc that vanishes ends the loop without an exception") {
  const pid_t child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  REQUIRE(child > 0);
  int taken = 0;
  for_each_entry("/proc/" + std::to_string(child) + "/task", [&](const std::filesystem::path&) {
    ++taken;
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  });
  CHECK(taken == 1);
}
