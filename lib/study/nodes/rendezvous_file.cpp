#include "study/nodes/rendezvous_file.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"
#include "log/log.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace trainctl::study {
namespace {

constexpr const char* kSchema = "trainctl.rendezvous/2";
constexpr std::size_t kMaxRendezvousBytes = 8192;

bool is_plain(char letter) {
  const bool is_alphanumeric = (letter >= 'a' && letter <= 'z') ||
                               (letter >= 'A' && letter <= 'Z') || (letter >= '0' && letter <= '9');
  return is_alphanumeric || letter == '.' || letter == '_' || letter == '-';
}

std::string cause() { return std::strerror(errno); }

std::optional<std::string> content_of(const fs::path& path) {
  // Opening the folder makes an NFS client ask the server again, because clients cache the absence
  // of a file.
  const Fd folder(::open(path.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const Fd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) {
    ENSURE(config, errno == ENOENT, "cannot read {}: {}", path.string(), cause());
    return std::nullopt;
  }
  struct stat info {};
  ENSURE(config, ::fstat(fd.get(), &info) == 0 && S_ISREG(info.st_mode),
         "{} must be a regular file", path.string());
  constexpr unsigned kOthers = 077;
  ENSURE(config, info.st_uid == ::geteuid() && (info.st_mode & kOthers) == 0,
         "the rendezvous file {} belongs to another user or is accessible to others\nhint: remove "
         "the file",
         path.string());
  std::array<char, kMaxRendezvousBytes> bytes{};
  const ssize_t count = ::pread(fd.get(), bytes.data(), bytes.size(), 0);
  return count > 0 ? std::optional(std::string(bytes.data(), static_cast<std::size_t>(count)))
                   : std::nullopt;
}

// Invalid content counts as no file, because it may be incomplete.
std::optional<RendezvousInfo> load_rendezvous(const fs::path& path) {
  const auto text = content_of(path);
  if (!text || !text->ends_with('\n')) return std::nullopt;
  return parse_rendezvous(*text, path.string());
}

fs::path write_temporary(const fs::path& path, const std::string& text) {
  const fs::path temporary =
      path.parent_path() / fmt::format("{}.tmp.{}", path.filename().string(), ::getpid());
  ::unlink(temporary.c_str());
  const Fd fd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  ENSURE(resource, fd.valid(),
         "cannot write {}, which gives the other nodes the address of node 0: {}\nhint: set --out "
         "to a writable folder that all nodes share",
         temporary.string(), cause());
  try {
    write_all(fd.get(), text, temporary.string());
    ENSURE(resource, ::fsync(fd.get()) == 0, "cannot write {}: {}", temporary.string(), cause());
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  return temporary;
}

std::optional<LockHolder> holder_of(const fs::path& path) {
  try {
    const auto rendezvous = load_rendezvous(path);
    return rendezvous ? std::optional(rendezvous->coordinator) : std::nullopt;
  } catch (const Error&) {  // a different file type or owner: the later rename reports it
    return std::nullopt;
  }
}

void check_no_live_coordinator(const fs::path& path) {
  const auto holder = holder_of(path);
  if (!holder) return;
  ENSURE(resource, !is_certainly_alive(*holder, this_process()),
         "another run with this --rdzv-id is running: {} was written by pid {} on {} at {}\nhint: "
         "set another --rdzv-id for this run",
         path.string(), holder->pid, printable(holder->host), printable(holder->since));
  if (holder->pid == ::getpid()) return;
  log::get().warn("replacing {}, which pid {} on {} wrote at {}: that run has exited",
                  path.string(), holder->pid, printable(holder->host), printable(holder->since));
}

}  // namespace

fs::path rendezvous_path(const fs::path& out, const std::string& run_id) {
  constexpr std::size_t kMostLetters = 100;
  constexpr std::size_t kDigestLetters = 12;
  std::string name = run_id.substr(0, kMostLetters);
  for (char& letter : name) letter = is_plain(letter) ? letter : '_';
  if (name != run_id) name += "-" + to_hex(sha256(run_id)).substr(0, kDigestLetters);
  return fs::absolute(out) / (".rendezvous-" + name);
}

std::string rendezvous_text(const RendezvousInfo& rendezvous) {
  Json json{{"schema", kSchema},
            {"run_id", rendezvous.run_id},
            {"endpoint", launch::to_text(rendezvous.endpoint)},
            {"coordinator", Json::parse(lock_line(rendezvous.coordinator))}};
  if (rendezvous.token) json["token"] = launch::token_digits(*rendezvous.token);
  return to_line(json) + "\n";
}

RendezvousInfo parse_rendezvous(const std::string& text, const std::string& where) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto word = [&](const char* key) {
    const bool is_there = json.is_object() && json.contains(key) && json[key].is_string();
    ENSURE(config, is_there, "{} is not a valid rendezvous file: '{}' must be a string", where,
           key);
    return json[key].get<std::string>();
  };
  ENSURE(config, word("schema") == kSchema,
         "the rendezvous file {} was written by another version of trainctl\nhint: use the same "
         "version on all nodes",
         where);
  RendezvousInfo rendezvous;
  rendezvous.run_id = word("run_id");
  rendezvous.endpoint = launch::parse_endpoint(word("endpoint"));
  if (json.contains("token")) rendezvous.token = launch::parse_token(word("token"), where);
  const auto coordinator =
      json.contains("coordinator") ? read_lock_line(to_line(json["coordinator"])) : std::nullopt;
  ENSURE(config, coordinator.has_value(),
         "{} is not a valid rendezvous file: it does not name the process of node 0", where);
  rendezvous.coordinator = *coordinator;
  return rendezvous;
}

void write_rendezvous(const fs::path& path, const RendezvousInfo& rendezvous) {
  make_folder(path.parent_path());
  const fs::path temporary = write_temporary(path, rendezvous_text(rendezvous));
  try {
    if (::link(temporary.c_str(), path.c_str()) != 0) {
      check_no_live_coordinator(path);
      ENSURE(resource, ::rename(temporary.c_str(), path.c_str()) == 0, "cannot write {}: {}",
             path.string(), cause());
    }
  } catch (const Error&) {
    ::unlink(temporary.c_str());
    throw;
  }
  ::unlink(temporary.c_str());
}

std::optional<RendezvousInfo> read_rendezvous(const fs::path& path) {
  auto rendezvous = load_rendezvous(path);
  if (!rendezvous || why_exited(rendezvous->coordinator, this_process())) return std::nullopt;
  return rendezvous;
}

void remove_rendezvous(const fs::path& path) {
  const auto holder = holder_of(path);
  const LockHolder here = this_process();
  const bool is_ours = holder && holder->host == here.host && holder->pid == here.pid &&
                       holder->started == here.started && holder->boot_id == here.boot_id;
  if (is_ours) ::unlink(path.c_str());
}

}  // namespace trainctl::study
