#include "launch/process/orphans.hpp"

#include "base/folder_entries.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace trainctl::launch {
namespace {

// "12 (any name) S 1 ...": the name may hold anything, so the parent is counted from the last
// parenthesis.
pid_t parent_of(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text;
  std::getline(file, text, '\0');  // all of it; fails quietly where the process ends meanwhile
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return -1;
  std::istringstream rest(text.substr(end + 1));
  char state = 0;
  pid_t parent = -1;
  rest >> state >> parent;
  return rest ? parent : -1;
}

std::set<pid_t> own_children() {
  std::set<pid_t> children;
  for_each_entry("/proc", [&](const std::filesystem::path& entry) {
    const std::string name = entry.filename().string();
    pid_t pid = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (error != std::errc() || end != name.data() + name.size()) return;
    if (parent_of(entry) == ::getpid()) children.insert(pid);
  });
  return children;
}

}  // namespace

OrphanKeeper::OrphanKeeper() : children_before_(own_children()) {
  ::prctl(PR_GET_CHILD_SUBREAPER, &subreaper_before_);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
}

OrphanKeeper::~OrphanKeeper() {
  // Each round may orphan the next generation; a process in an uninterruptible wait is left behind.
  constexpr int kRounds = 400;
  for (int round = 0; round < kRounds; ++round) {
    bool found = false;
    for (const pid_t pid : own_children()) {
      if (children_before_.contains(pid)) continue;
      found = true;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, WNOHANG);
    }
    if (!found) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ::prctl(PR_SET_CHILD_SUBREAPER, subreaper_before_);
}

}  // namespace trainctl::launch
