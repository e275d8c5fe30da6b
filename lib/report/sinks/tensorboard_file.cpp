#include "report/sinks/tensorboard_file.hpp"

#include "base/crc32c.hpp"
#include "base/error.hpp"
#include "base/folder_entries.hpp"
#include "report/sinks/tensorboard_events.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <span>
#include <system_error>

namespace trainctl::report::tensorboard {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";

template <class Number>
std::string little_endian(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i)
    bytes.push_back(static_cast<char>((number >> (8 * i)) & 0xff));
  return bytes;
}

std::string checksum_of(std::string_view bytes) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(bytes)));
  return little_endian<std::uint32_t>(((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

/// The seconds in the name of an event file; -1 for other files.
std::int64_t seconds_of(const std::string& name) {
  if (!name.starts_with(kPrefix)) return -1;
  std::int64_t seconds = -1;
  const char* begin = name.data() + kPrefix.size();
  const auto [end, failure] = std::from_chars(begin, name.data() + name.size(), seconds);
  return failure == std::errc() && end != begin ? seconds : -1;
}

std::int64_t newest_in(const fs::path& folder) {
  std::int64_t newest = -1;
  for_each_entry(folder, [&](const fs::path& entry) {
    newest = std::max(newest, seconds_of(entry.filename().string()));
  });
  return newest;
}

std::string plain(std::string host) {
  std::ranges::replace_if(
      host,
      [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '.';
      },
      '_');
  return host.empty() ? "localhost" : host;
}

}  // namespace

std::string record_of(std::string_view bytes) {
  const std::string length = little_endian<std::uint64_t>(bytes.size());
  std::string record = length + checksum_of(length);
  record += bytes;
  return record + checksum_of(bytes);
}

fs::path next_file(const fs::path& folder, double wall_time, const std::string& host) {
  const std::int64_t seconds =
      std::max(static_cast<std::int64_t>(wall_time), newest_in(folder) + 1);
  return folder / fmt::format("{}{:010}.{}.{}.0", kPrefix, seconds, plain(host), ::getpid());
}

bool has_files(const fs::path& folder) { return newest_in(folder) >= 0; }

EventFile::EventFile(fs::path path, double wall_time)
    : path_(std::move(path)),
      fd_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644)) {
  ENSURE(resource, fd_.valid(), "cannot write {}: {}", path_.string(), std::strerror(errno));
  append(version_event(wall_time));
}

void EventFile::append(std::string_view event) {
  struct stat before {};
  ENSURE(resource, ::fstat(fd_.get(), &before) == 0, "cannot write {}: {}", path_.string(),
         std::strerror(errno));
  try {
    write_all(fd_.get(), record_of(event), path_.string());
  } catch (const Error&) {
    (void)::ftruncate(fd_.get(), before.st_size);
    throw;
  }
}

void EventFile::sync() {
  ENSURE(resource, ::fdatasync(fd_.get()) == 0, "cannot sync {}: {}", path_.string(),
         std::strerror(errno));
}

}  // namespace trainctl::report::tensorboard
