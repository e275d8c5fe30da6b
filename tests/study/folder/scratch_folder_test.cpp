#include "study/folder/folder_lock.hpp"
#include "study/folder/run_folder.hpp"
#include "support/catch.hpp"
#include "support/temp_folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

using namespace trainctl;
using namespace trainctl::study;

namespace {

// Creates the folder of a killed run, whose lock names an exited process.
fs::path plant(const fs::path& folder, int pid) {
  fs::create_directories(folder / "logs");
  LockHolder holder = this_process();
  holder.pid = pid;
  std::ofstream(folder / FolderLock::kFileName) << lock_line(holder);
  std::ofstream(folder / "logs/rank_0.log") << "x";
  return folder;
}

int gone_pid() {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(0);
  ::waitpid(pid, nullptr, 0);
  return pid;
}

}  // namespace

TEST_CASE("ScratchFolder: is removed with its object, except after keep()") {
  const TempFolder parent;
  { const ScratchFolder scratch(parent.path()); }
  CHECK(fs::is_empty(parent.path()));
  fs::path kept;
  {
    ScratchFolder scratch(parent.path());
    scratch.keep();
    kept = scratch.path();
  }
  CHECK(fs::exists(kept));
}

TEST_CASE("ScratchFolder: removes only folders of killed processes") {
  const TempFolder parent;
  const int gone = gone_pid();
  const fs::path left = plant(parent / "trainctl-a1B2c3", gone);
  const fs::path used = plant(parent / "trainctl-used00", ::getpid());
  const fs::path other = plant(parent / "trainctl-longer0", gone);
  const fs::path kept = parent / "trainctl-kept00";
  fs::create_directories(kept / "logs");
  const ScratchFolder scratch(parent.path());
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(used));
  CHECK(fs::exists(other));
  CHECK(fs::exists(kept));
  CHECK(fs::exists(scratch.path()));
}
