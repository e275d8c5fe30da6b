#include "checkpoint/container.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/strings.hpp"
#include "checkpoint/container_format.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

namespace trainctl::container {
namespace {

/// A regular file, opened for reading. Throws Error(checkpoint) when the file cannot be a container
/// or is too short, and Error(resource) when a disk, a server, or the limits and permissions of the
/// process prevent reading: an unreadable file must not be treated as damaged.
class Source {
 public:
  explicit Source(const std::filesystem::path& path)
      // Without O_NONBLOCK, opening a pipe would block.
      : fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    const int cause = errno;
    if (!fd_.valid())
      throw Error(is_path_error(cause) ? ErrorKind::checkpoint : ErrorKind::resource,
                  fmt::format("cannot open it: {}", std::strerror(cause)));
    struct stat info {};
    ENSURE(resource, ::fstat(fd_.get(), &info) == 0, "cannot stat it: {}", std::strerror(errno));
    ENSURE(checkpoint, S_ISREG(info.st_mode), "it must be a regular file");
    size_ = static_cast<std::size_t>(info.st_size);
  }

  [[nodiscard]] std::size_t size() const { return size_; }
  /// Reads `bytes` completely, starting at `at`.
  void read(std::uint64_t at, std::span<std::byte> bytes) const {
    for (std::size_t done = 0; done < bytes.size();) {
      const ssize_t count = ::pread(fd_.get(), bytes.data() + done, bytes.size() - done,
                                    static_cast<off_t>(at + done));
      if (count < 0 && errno == EINTR) continue;
      ENSURE(resource, count >= 0, "cannot read it: {}", std::strerror(errno));
      ENSURE(checkpoint, count > 0, "the file was truncated while it was read");
      done += static_cast<std::size_t>(count);
    }
  }
  [[nodiscard]] Prefix prefix() const {
    std::array<std::byte, kPrefixBytes> head{};
    const auto start = std::span(head).first(std::min(size_, head.size()));
    read(0, start);
    return read_prefix(start, size_);
  }

 private:
  Fd fd_;
  std::size_t size_ = 0;
};

struct Head {
  std::string text;  // the JSON header
  std::uint64_t file_bytes = 0;
};

/// Returns the header, whose length does not depend on the checksums.
Head head_of(std::span<const Entry> entries, const Json& meta,
             std::span<const std::uint32_t> checksums) {
  Json list = Json::array();
  std::uint64_t end = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::uint64_t offset = aligned(end);
    list.push_back(Json{{"name", entries[i].name},
                        {"dtype", entries[i].dtype},
                        {"shape", entries[i].shape},
                        {"offset", offset},
                        {"length", entries[i].bytes.size()},
                        {"crc32c", fmt::format("{:08x}", checksums[i])}});
    end = offset + entries[i].bytes.size();
  }
  Json header = Json::object();
  header["meta"] = meta;
  header["entries"] = std::move(list);
  std::string text = to_line(header);
  const std::uint64_t begin =
      entries.empty() ? kPrefixBytes + text.size() : data_begin(text.size());
  return {std::move(text), begin + end};
}

/// Detects data that a reader would reject or read differently now, and not when the checkpoint is
/// needed.
void check_readable(const Head& head, std::span<const Entry> entries, const Json& meta) {
  ENSURE(
      checkpoint, head.text.size() <= kMaxHeader,
      "its header of tensor names and saved values would have {} bytes, more than the limit of {}",
      with_thousands(static_cast<long long>(head.text.size())), with_thousands(kMaxHeader));
  const Header back = read_header(head.text, head.file_bytes);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    ENSURE(checkpoint, back.entries[i].entry.name == entries[i].name, "{} is not valid UTF-8",
           shown(entries[i].name));
  }
  ENSURE(checkpoint, back.meta == meta, "its saved values must be finite numbers or UTF-8 text");
}

constexpr std::align_val_t kPage{4096};

/// Sets and verifies the bytes of an entry at `at`; `end` is the end of the previous entry.
void take_bytes(Listed& listed, std::span<const std::byte> file, std::uint64_t at,
                std::uint64_t end) {
  expect_zero(file.subspan(end, at - end));
  listed.entry.bytes = file.subspan(at, listed.length);
  expect_checksum(listed, crc32c(listed.entry.bytes));
}

Contents check(std::span<const std::byte> file) {
  const Prefix prefix = read_prefix(file, file.size());
  const auto header = file.subspan(kPrefixBytes, prefix.header_bytes);
  const std::string_view text = as_text(header);
  expect_sound(prefix, text);
  Header listed = read_header(text, file.size());
  Contents contents{{}, std::move(listed.by_name), std::move(listed.meta), prefix.checksum};
  contents.entries.reserve(listed.entries.size());
  std::uint64_t end = kPrefixBytes + header.size();
  for (Listed& entry : listed.entries) {
    const std::uint64_t at = data_begin(header.size()) + entry.offset;
    in_context(shown(entry.entry.name), [&] { take_bytes(entry, file, at, end); });
    end = at + entry.length;
    contents.entries.push_back(std::move(entry.entry));
  }
  return contents;
}

constexpr std::size_t kPiece = 2 << 20;

/// Returns the checksum of `length` bytes, starting at `at`.
std::uint32_t checksum_in(const Source& source, std::uint64_t at, std::uint64_t length,
                          std::span<std::byte> buffer) {
  std::uint32_t checksum = 0;
  for (std::uint64_t done = 0; done < length;) {
    const auto piece = buffer.first(std::min<std::uint64_t>(buffer.size(), length - done));
    source.read(at + done, piece);
    checksum = crc32c(piece, checksum);
    done += piece.size();
  }
  return checksum;
}

void check_data(const Source& source, const Header& header, std::uint64_t header_bytes) {
  std::vector<std::byte> buffer(kPiece);
  std::uint64_t end = kPrefixBytes + header_bytes;
  for (const Listed& listed : header.entries) {
    const std::uint64_t at = data_begin(header_bytes) + listed.offset;
    in_context(shown(listed.entry.name), [&] {
      const auto padding =
          std::span(buffer).first(at - end);  // read_header() limits it to 63 bytes
      source.read(end, padding);
      expect_zero(padding);
      expect_checksum(listed, checksum_in(source, at, listed.length, buffer));
    });
    end = at + listed.length;
  }
}

}  // namespace

void write_to(int fd, std::span<const Entry> entries, const Json& meta, const std::string& label) {
  static constexpr std::array<char, kAlignment> kZeros{};
  std::vector<std::uint32_t> checksums;
  for (const Entry& entry : entries) checksums.push_back(crc32c(entry.bytes));
  const Head head = head_of(entries, meta, checksums);
  in_context("cannot write " + shown(label), [&] { check_readable(head, entries, meta); });

  Prefix prefix{kVersion, 0, head.file_bytes, head.text.size()};
  prefix.checksum = checksum_of(prefix, head.text);
  const std::string start = pack(prefix);
  std::vector<std::string_view> pieces{start, head.text};
  std::uint64_t end = start.size() + head.text.size();
  for (const Entry& entry : entries) {
    pieces.emplace_back(kZeros.data(), aligned(end) - end);
    pieces.push_back(as_text(entry.bytes));
    end = aligned(end) + entry.bytes.size();
  }
  write_gathered(fd, pieces, label);
}

void write(const std::filesystem::path& path, std::span<const Entry> entries, const Json& meta) {
  write_atomically(path, [&](int fd) { write_to(fd, entries, meta, path.string()); });
}

std::uint64_t file_bytes(std::span<const Entry> entries, const Json& meta) {
  return head_of(entries, meta, std::vector<std::uint32_t>(entries.size())).file_bytes;
}

const Entry* Contents::find(std::string_view name) const {
  const auto at = std::lower_bound(
      by_name.begin(), by_name.end(), name,
      [&](std::uint32_t i, std::string_view wanted) { return entries[i].name < wanted; });
  return at != by_name.end() && entries[*at].name == name ? &entries[*at] : nullptr;
}

Contents parse(std::span<const std::byte> file, const std::string& label) {
  return in_context(label, [&] { return check(file); });
}

void File::Free::operator()(std::byte* bytes) const { ::operator delete[](bytes, kPage); }

File::Buffer File::allocate(std::size_t size) {
  void* memory = ::operator new[](size, kPage, std::nothrow);
  ENSURE(resource, memory != nullptr, "cannot allocate {} bytes to read the file", size);
  return Buffer(static_cast<std::byte*>(memory));
}

std::uint32_t stored_checksum(const std::filesystem::path& path) {
  return in_context(printable(path.string()), [&] { return Source(path).prefix().checksum; });
}

// The file is read instead of mapped: accessing a mapped file that shrinks would end the process,
// and verified bytes could change.
File::File(const std::filesystem::path& path) {
  const std::string label = printable(path.string());
  std::size_t size = 0;
  in_context(label, [&] {
    const Source source(path);
    size = source.size();
    (void)source.prefix();
    bytes_ = allocate(size);
    source.read(0, {bytes_.get(), size});
  });
  contents_ = parse({bytes_.get(), size}, label);
}

std::uint32_t check_file(const std::filesystem::path& path) {
  return in_context(printable(path.string()), [&] {
    const Source source(path);
    const Prefix prefix = source.prefix();
    std::string text(prefix.header_bytes, '\0');
    source.read(kPrefixBytes, std::as_writable_bytes(std::span(text)));
    expect_sound(prefix, text);
    check_data(source, read_header(text, source.size()), text.size());
    return prefix.checksum;
  });
}

}  // namespace trainctl::container
