#include "data/formats/mapped_file.hpp"

#include "base/hash.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <mutex>

namespace trainctl::data {

// The signal handler reads these without a lock, so entries are never unlinked, only reused.
struct WatchedRange {
  std::atomic<const std::byte*> begin{nullptr};  // null: free
  std::size_t size = 0;
  int fd = -1;
  std::array<char, 1024> name{};
  WatchedRange* next = nullptr;
};

namespace {

constexpr std::size_t kWholeDigest = std::size_t{256} << 20;
constexpr std::size_t kPages = 4096;
constexpr std::size_t kPageBytes = 4096;

std::atomic<WatchedRange*> g_entries{nullptr};
std::mutex g_adding;
struct sigaction g_before {};
LostPagesReport g_report;
std::atomic<bool> g_has_report{false};

/// Builds text in a fixed buffer, because a signal handler must not allocate.
class SignalSafeText {
 public:
  SignalSafeText& add(std::string_view text) {
    const std::size_t count = std::min(text.size(), bytes_.size() - used_);
    std::copy_n(text.data(), count, bytes_.data() + used_);
    used_ += count;
    return *this;
  }
  SignalSafeText& add(std::uint64_t number) {
    std::array<char, 20> digits{};
    const auto [end, failure] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
    return add({digits.data(), static_cast<std::size_t>(end - digits.data())});
  }
  /// Escapes only quotes and backslashes: printable() has already escaped control bytes.
  SignalSafeText& add_json(std::string_view text) {
    for (const char& c : text) {
      if (c == '"' || c == '\\') add("\\");
      add({&c, 1});
    }
    return *this;
  }
  [[nodiscard]] std::string_view text() const { return {bytes_.data(), used_}; }

 private:
  std::array<char, 4096> bytes_;
  std::size_t used_ = 0;
};

void put_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

void report(std::string_view message) {
  if (!g_has_report.load(std::memory_order_acquire)) return;
  SignalSafeText document;
  document.add(g_report.before).add_json(message).add(g_report.after);
  if (g_report.file.empty()) return put_all(STDOUT_FILENO, document.text());
  const int fd =
      ::open(g_report.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (fd < 0) return;
  put_all(fd, document.text());
  ::close(fd);
}

[[noreturn]] void end_process(const WatchedRange& entry, std::uint64_t at) {
  struct stat now {};
  const bool known = ::fstat(entry.fd, &now) == 0;
  const auto size = static_cast<std::uint64_t>(now.st_size);
  SignalSafeText message;
  if (known && size <= at) {
    message.add(entry.name.data()).add(" ends at byte ").add(size).add("; byte ").add(at);
    message.add(" was expected: the file was truncated while it was read");
  } else {
    message.add("cannot read ").add(entry.name.data()).add(" at byte ").add(at);
    message.add(": input/output error");
  }
  SignalSafeText line;
  put_all(STDERR_FILENO, line.add("error: ").add(message.text()).add("\n").text());
  report(message.text());
  ::_exit(static_cast<int>(ErrorKind::data));
}

void on_bus_error(int signal, siginfo_t* info, void*) {
  const auto* const at = static_cast<const std::byte*>(info->si_addr);
  // A positive code means that the kernel sent the signal and set the address.
  for (WatchedRange* entry = info->si_code > 0 ? g_entries.load(std::memory_order_acquire)
                                               : nullptr;
       entry != nullptr; entry = entry->next) {
    const std::byte* begin = entry->begin.load(std::memory_order_acquire);
    if (begin == nullptr || at < begin || at >= begin + entry->size) continue;
    end_process(*entry, static_cast<std::uint64_t>(at - begin));
  }
  // The address is not in a watched range: the previous handler gets the signal at the next access.
  ::sigaction(SIGBUS, &g_before, nullptr);
  if (info->si_code <= 0) (void)::raise(signal);
}

void install_handler() {
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  ::sigaction(SIGBUS, &action, &g_before);
}

WatchedRange& free_entry() {
  for (WatchedRange* entry = g_entries.load(); entry != nullptr; entry = entry->next) {
    if (entry->begin.load() == nullptr) return *entry;
  }
  auto* const added = new WatchedRange;
  added->next = g_entries.load();
  g_entries.store(added, std::memory_order_release);
  return *added;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path, Fetch fetch)
    : name_(shown(path)), file_(path) {
  if (fetch == Fetch::whole) file_.need_all();
  const auto size = static_cast<std::size_t>(file_.size());
  if (size == 0) return;  // mmap() rejects empty files
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file_.fd(), 0);
  ENSURE(data, mapping != MAP_FAILED, "cannot map {} into memory: {}", name_, std::strerror(errno));
  bytes_ = {static_cast<const std::byte*>(mapping), size};
  watched_.emplace(bytes_, file_.fd(), name_);
}

MappedFile::~MappedFile() {
  watched_.reset();
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

std::string content_digest(std::span<const std::byte> bytes) {
  Hasher hasher;
  hasher.add(static_cast<std::uint64_t>(bytes.size()));
  if (bytes.size() <= kWholeDigest) {
    hasher.add(bytes);
    return hasher.hex();
  }
  for (std::size_t page = 0; page < kPages; ++page) {
    hasher.add(bytes.subspan((bytes.size() - kPageBytes) / (kPages - 1) * page, kPageBytes));
  }
  return hasher.hex();
}

WatchedPages::WatchedPages(std::span<const std::byte> bytes, int fd, const std::string& name) {
  static std::once_flag installed;
  std::call_once(installed, install_handler);
  const std::lock_guard lock(g_adding);
  entry_ = &free_entry();
  entry_->size = bytes.size();
  entry_->fd = fd;
  entry_->name = {};
  std::copy_n(name.data(), std::min(name.size(), entry_->name.size() - 1), entry_->name.data());
  entry_->begin.store(bytes.data(), std::memory_order_release);
}

WatchedPages::~WatchedPages() { entry_->begin.store(nullptr); }

void report_lost_pages(LostPagesReport report) {
  g_report = std::move(report);
  g_has_report.store(true, std::memory_order_release);
}

}  // namespace trainctl::data
