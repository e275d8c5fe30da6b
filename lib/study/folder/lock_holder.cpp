#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/machine/machine.hpp"
#include "study/folder/folder_lock.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <limits>
#include <sstream>

namespace trainctl::study {
namespace {

std::string first_line(const fs::path& file) {
  std::ifstream stream(file);
  std::string line;
  std::getline(stream, line);
  return line;
}

struct Process {
  char state = 0;
  std::uint64_t started = 0;
};

// "12 (any name) S 1 ...": the name may hold anything, so fields are counted from the last
// parenthesis, behind which the third stands. The start is the 22nd.
std::optional<Process> look_up(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text, '\0');
  const std::size_t end = text.rfind(')');
  if (end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(end + 1));
  Process process;
  fields >> process.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> process.started;
  return fields ? std::optional(process) : std::nullopt;
}

bool is_gone(int pid) { return ::kill(pid, 0) != 0 && errno == ESRCH; }

// Machines whose name is that of all machines cannot be told apart by it.
bool names_a_machine(const std::string& host) { return !host.empty() && host != "localhost"; }

}  // namespace

LockHolder this_process() {
  LockHolder holder;
  holder.host = read_machine().host;
  holder.pid = ::getpid();
  struct stat info {};
  if (::stat("/proc/self/ns/pid", &info) == 0) holder.pid_namespace = info.st_ino;
  holder.boot_id = first_line("/proc/sys/kernel/random/boot_id");
  if (const auto process = look_up(holder.pid)) holder.started = process->started;
  holder.since = utc_timestamp();
  return holder;
}

std::string lock_line(const LockHolder& holder) {
  Json line;
  line["host"] = holder.host;
  line["pid"] = holder.pid;
  line["since"] = holder.since;
  line["process_started"] = holder.started;
  line["pid_namespace"] = holder.pid_namespace;
  line["boot_id"] = holder.boot_id;
  return to_line(line) + "\n";
}

std::optional<LockHolder> read_lock_line(std::string_view text) {
  const Json line = Json::parse(text.substr(0, text.find('\n')), nullptr, false);
  if (!line.is_object()) return std::nullopt;
  bool sound = true;
  const auto word = [&](const char* key) {
    const auto found = line.find(key);
    const bool fits = found != line.end() && found->is_string();
    sound = sound && fits;
    return fits ? found->get<std::string>() : std::string();
  };
  const auto number = [&](const char* key) {
    const auto found = line.find(key);
    const bool fits = found != line.end() && found->is_number_unsigned();
    sound = sound && fits;
    return fits ? found->get<std::uint64_t>() : 0;
  };
  const std::uint64_t pid = number("pid");
  LockHolder holder{.host = word("host"),
                    .pid = static_cast<int>(pid),
                    .pid_namespace = number("pid_namespace"),
                    .boot_id = word("boot_id"),
                    .started = number("process_started"),
                    .since = word("since")};
  const bool is_pid = pid > 0 && pid <= static_cast<std::uint64_t>(std::numeric_limits<int>::max());
  return sound && is_pid ? std::optional(std::move(holder)) : std::nullopt;
}

std::optional<std::string> why_gone(const LockHolder& holder, const LockHolder& here) {
  if (holder.host != here.host || holder.boot_id.empty() || here.boot_id.empty())
    return std::nullopt;
  if (holder.boot_id != here.boot_id) {
    if (!names_a_machine(holder.host)) return std::nullopt;
    return "the machine was started anew since";
  }
  if (holder.pid_namespace == 0 || holder.pid_namespace != here.pid_namespace) return std::nullopt;
  if (is_gone(holder.pid)) return "that process is gone";
  const auto process = look_up(holder.pid);
  if (!process || holder.started == 0) return std::nullopt;  // of another user, and hidden
  if (process->started != holder.started) return "that number belongs to another process now";
  if (process->state == 'Z' || process->state == 'X') return "that process has ended";
  return std::nullopt;
}

bool surely_lives(const LockHolder& holder, const LockHolder& here) {
  const bool is_seen = holder.host == here.host && !holder.boot_id.empty() &&
                       holder.boot_id == here.boot_id && holder.pid_namespace != 0 &&
                       holder.pid_namespace == here.pid_namespace;
  return is_seen && holder.pid != here.pid && !why_gone(holder, here);
}

}  // namespace trainctl::study
