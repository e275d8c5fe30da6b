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

/// Creates the folder of a killed run, whose lock names an exited process.
fs::path create_scratch(const fs::path& folder, int pid) {
  fs::create_directories(folder / "logs");
  LockHolder holder = this_process();
  holder.pid = pid;
  std::ofstream(folder / FolderLock::kFileName) << lock_line(holder);
  std::ofstream(folder / "logs/rank_0.log") << "x";
  return folder;
}

int exited_pid() {
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
  const int exited = exited_pid();
  const fs::path left = create_scratch(parent / "trainctl-a1B2c3", exited);
  const fs::path used = create_scratch(parent / "trainctl-used00", ::getpid());
  const fs::path other = create_scratch(parent / "trainctl-longer0", exited);
  const fs::path kept = parent / "trainctl-kept00";
  fs::create_directories(kept / "logs");
  const ScratchFolder scratch(parent.path());
  CHECK_FALSE(fs::exists(left));
  CHECK(fs::exists(used));
  CHECK(fs::exists(other));
  CHECK(fs::exists(kept));
  CHECK(fs::exists(scratch.path()));
}
