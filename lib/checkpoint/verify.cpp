#include "checkpoint/verify.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "checkpoint/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ranges>
#include <span>
#include <vector>

namespace trainctl::checkpoint {
namespace {

/// The longest header of a container plus prefix and padding.
constexpr std::uint64_t kMostManifestBytes = (16U << 20) + 4096;

Fd open_to_read(const fs::path& path) {
  return Fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

/// Returns the size of a file that can be opened. A link, a pipe or a folder in its place is
/// damage; a file that this process may not access is not.
std::uint64_t readable_bytes(const fs::path& path) {
  const std::string label = printable(path.string());
  const Fd fd = open_to_read(path);
  const int cause = errno;
  ENSURE(resource, fd.valid() || is_path_error(cause), "cannot read {}: {}", label,
         std::strerror(cause));
  ENSURE(checkpoint, fd.valid() || cause != ENOENT, "{} is missing", label);
  ENSURE(checkpoint, fd.valid(), "cannot read {}: {}", label, std::strerror(cause));
  struct stat info {};
  ENSURE(resource, ::fstat(fd.get(), &info) == 0, "cannot read {}: {}", label,
         std::strerror(errno));
  ENSURE(checkpoint, S_ISREG(info.st_mode), "{} is not a regular file", label);
  return static_cast<std::uint64_t>(info.st_size);
}

void expect_bytes(const fs::path& path, std::uint64_t committed) {
  const std::uint64_t bytes = readable_bytes(path);
  ENSURE(checkpoint, bytes == committed, "{} has {} bytes, expected {}", printable(path.string()),
         with_thousands(static_cast<long long>(bytes)),
         with_thousands(static_cast<long long>(committed)));
}

auto shared_files(const Manifest& manifest) {
  return manifest.shared | std::views::filter([](const Manifest::SharedGroup& shared) {
           return shared.same_as.empty();
         });
}

void expect_checksum(const fs::path& checkpoint, const Manifest::Part& part, std::uint32_t found) {
  ENSURE(checkpoint, found == part.checksum,
         "{} is from another checkpoint: its checksum is {:08x}, expected {:08x}",
         printable((checkpoint / part.file).string()), found, part.checksum);
}

}  // namespace

std::uint32_t checksum_of_file(const fs::path& path) {
  const std::string label = printable(path.string());
  const Fd fd = open_to_read(path);
  ENSURE(resource, fd.valid(), "cannot read {}: {}", label, std::strerror(errno));
  std::vector<std::byte> buffer(std::size_t{4} << 20);
  std::uint32_t checksum = 0;
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    ENSURE(resource, count >= 0, "cannot read {}: {}", label, std::strerror(errno));
    if (count == 0) return checksum;
    checksum = crc32c(std::span(buffer).first(static_cast<std::size_t>(count)), checksum);
  }
}

Manifest read_manifest(const fs::path& checkpoint) {
  const fs::path path = checkpoint / kManifestName;
  const std::string label = printable(path.string());
  const std::uint64_t bytes = readable_bytes(path);
  ENSURE(checkpoint, bytes <= kMostManifestBytes,
         "{} has {} bytes, more than the limit of {} bytes", label, bytes, kMostManifestBytes);
  const container::File file(path);
  ENSURE(checkpoint, file.entries().empty(), "{} must not contain tensors", label);
  Manifest manifest = from_json(file.meta(), label);
  const auto named = parse_folder_name(checkpoint.filename().string());
  const std::string own_name = folder_name(manifest.moment());
  ENSURE(checkpoint, !named || folder_name(*named) == own_name, "{} is from another checkpoint, {}",
         label, own_name);
  return manifest;
}

container::File read_part(const fs::path& checkpoint, const Manifest::Part& part) {
  expect_bytes(checkpoint / part.file, part.bytes);
  container::File file(checkpoint / part.file);
  expect_checksum(checkpoint, part, file.header_checksum());
  return file;
}

void check_shared_file(const fs::path& checkpoint, const Manifest::SharedGroup& shared) {
  const fs::path path = checkpoint / shared.file;
  expect_bytes(path, shared.bytes);
  const std::uint32_t found = checksum_of_file(path);
  ENSURE(checkpoint, found == shared.checksum,
         "{} is damaged: its CRC-32C is {:08x}, expected {:08x}", printable(path.string()), found,
         shared.checksum);
}

Manifest verify(const fs::path& checkpoint) {
  Manifest manifest = read_manifest(checkpoint);
  for (const Manifest::Part& part : manifest.parts) {
    expect_bytes(checkpoint / part.file, part.bytes);
    expect_checksum(checkpoint, part, container::check_file(checkpoint / part.file));
  }
  for (const auto& shared : shared_files(manifest)) check_shared_file(checkpoint, shared);
  return manifest;
}

std::uint32_t seal_of(const fs::path& checkpoint) {
  return container::stored_checksum(checkpoint / kManifestName);
}

bool is_as_sealed(const fs::path& checkpoint, std::uint32_t seal) {
  try {
    if (seal_of(checkpoint) != seal) return false;
    const Manifest manifest = read_manifest(checkpoint);
    for (const Manifest::Part& part : manifest.parts)
      expect_bytes(checkpoint / part.file, part.bytes);
    for (const auto& shared : shared_files(manifest))
      expect_bytes(checkpoint / shared.file, shared.bytes);
    return true;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) throw;
    return false;
  }
}

std::optional<std::string> damage(const fs::path& checkpoint) {
  try {
    verify(checkpoint);
    return std::nullopt;
  } catch (const UnsupportedFormat&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::checkpoint) throw;
    return error.what();
  }
}

void drop_from_cache(const fs::path& checkpoint, const Manifest& manifest) {
  const auto drop = [](const fs::path& path) {
    const Fd fd = open_to_read(path);
    if (fd.valid()) ::posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  };
  drop(checkpoint / kManifestName);
  for (const Manifest::Part& part : manifest.parts) drop(checkpoint / part.file);
  for (const auto& shared : shared_files(manifest)) drop(checkpoint / shared.file);
}

}  // namespace trainctl::checkpoint
