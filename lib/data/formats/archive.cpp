#include "data/formats/archive.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"
#include "data/formats/file_reader.hpp"

#include <zlib.h>

#include <array>

namespace trainctl::data {
namespace {

/// Reads a plain file; for a remote path, its local copy.
class FileSource final : public ByteSource {
 public:
  explicit FileSource(const fs::path& path) : file_(path) {}

  std::size_t read(std::span<std::byte> out) override {
    const auto part = out.first(std::min<std::uint64_t>(out.size(), file_.size() - offset_));
    file_.read(offset_, part);
    offset_ += part.size();
    return part.size();
  }

  std::uint64_t skip(std::uint64_t count) override {
    const std::uint64_t skipped = std::min(count, file_.size() - offset_);
    offset_ += skipped;
    return skipped;
  }

  [[nodiscard]] std::uint64_t most() const override { return file_.size(); }

 private:
  FileReader file_;
  std::uint64_t offset_ = 0;
};

// Reads one gzip member (RFC 1952), as gzip(1) writes it.
class GzipSource final : public ByteSource {
 public:
  explicit GzipSource(const fs::path& path) : path_(path), packed_(path) {
    constexpr int kGzipOnly = 16 + MAX_WBITS;
    ENSURE(resource, ::inflateInit2(&stream_, kGzipOnly) == Z_OK,
           "zlib cannot start: out of memory");
  }
  ~GzipSource() override { ::inflateEnd(&stream_); }
  GzipSource(const GzipSource&) = delete;
  GzipSource& operator=(const GzipSource&) = delete;

  std::size_t read(std::span<std::byte> out) override {
    std::size_t done = 0;
    while (done < out.size() && !ended_) {
      if (stream_.avail_in == 0) refill();
      // The counters of zlib have 32 bits.
      const std::size_t piece = std::min<std::size_t>(out.size() - done, std::size_t{1} << 30);
      stream_.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream_.avail_out = static_cast<uInt>(piece);
      step();
      done += piece - stream_.avail_out;
    }
    return done;
  }

  // The densest deflate code emits 258 bytes for two bits.
  [[nodiscard]] std::uint64_t most() const override { return packed_.most() * 1032; }

 private:
  void refill() {
    const std::size_t count = packed_.read(buffer_);
    consumed_ += count;
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(count);
    ENSURE(data, count > 0,
           "{} ends at byte {}, in the middle of its gzip stream: the file is cut off",
           shown(path_), consumed_);
  }

  void step() {
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    const std::uint64_t at = consumed_ - stream_.avail_in;
    ENSURE(resource, code != Z_MEM_ERROR, "zlib is out of memory while it unpacks {}",
           shown(path_));
    ENSURE(data, code == Z_OK || code == Z_BUF_ERROR || code == Z_STREAM_END,
           "{} is not a valid gzip file: {} at byte {}", shown(path_),
           stream_.msg != nullptr ? stream_.msg : "bad stream", at);
    if (code != Z_STREAM_END) return;
    ended_ = true;
    ENSURE(data, at == packed_.most(),
           "{} must end at byte {}, where its gzip stream ends, but ends at byte {}", shown(path_),
           at, packed_.most());
  }

  fs::path path_;
  FileSource packed_;
  z_stream stream_{};
  std::array<std::byte, 1 << 16> buffer_;
  std::uint64_t consumed_ = 0;
  bool ended_ = false;
};

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMostExtension = std::uint64_t{1}
                                         << 20;  // limit of a pax header or a long name
constexpr std::uint64_t kMostSize = std::uint64_t{1} << 62;

using Block = std::array<std::byte, kBlock>;

std::string_view until_zero(std::string_view field) { return field.substr(0, field.find('\0')); }

/// Parses octal digits between blanks, or base-256 if the first bit is set.
std::optional<std::uint64_t> number(std::string_view field) {
  std::uint64_t value = 0;
  if ((static_cast<unsigned char>(field[0]) & 0x80U) != 0) {
    if (static_cast<unsigned char>(field[0]) != 0x80U)
      return std::nullopt;  // negative, or more than 88 bits
    for (const char c : field.substr(1)) {
      if (value > kMostSize >> 8U) return std::nullopt;
      value = value << 8U | static_cast<unsigned char>(c);
    }
    return value;
  }
  const std::size_t begin = field.find_first_not_of(' ');
  if (begin == std::string_view::npos) return std::nullopt;
  field = field.substr(begin, field.find_first_of(std::string_view(" \0", 2), begin) - begin);
  const auto [end, failure] = std::from_chars(field.data(), field.data() + field.size(), value, 8);
  if (failure != std::errc{} || end != field.data() + field.size()) return std::nullopt;
  return value;
}

std::uint64_t checksum(std::string_view block) {
  std::uint64_t sum = 8 * std::uint64_t{' '};  // the checksum field itself counts as blanks
  for (std::size_t i = 0; i < block.size(); ++i) {
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(block[i]);
  }
  return sum;
}

std::uint64_t padding_of(std::uint64_t size) { return (kBlock - size % kBlock) % kBlock; }

}  // namespace

std::uint64_t ByteSource::skip(std::uint64_t count) {
  std::array<std::byte, 1 << 14> dropped;
  std::uint64_t done = 0;
  while (done < count) {
    const std::size_t piece =
        static_cast<std::size_t>(std::min<std::uint64_t>(dropped.size(), count - done));
    const std::size_t got = read(std::span(dropped).first(piece));
    done += got;
    if (got < piece) break;
  }
  return done;
}

std::unique_ptr<ByteSource> open_source(const fs::path& path) {
  if (path.extension() == ".gz") return std::make_unique<GzipSource>(path);
  return std::make_unique<FileSource>(path);
}

/// A header block with a valid checksum and size.
struct TarReader::Header {
  std::string name;
  std::uint64_t size = 0;
  std::uint64_t at = 0;  // offset of the block
  char type = '0';

  Header(std::string_view block, std::uint64_t offset, const std::string& archive)
      : at(offset), type(block[156]) {
    const auto sum = number(block.substr(148, 8));
    ENSURE(data, sum && *sum == checksum(block),
           "{} has an invalid tar header at byte {}: its checksum is wrong", archive, at);
    const auto bytes = number(block.substr(124, 12));
    ENSURE(data, bytes && *bytes < kMostSize,
           "{} has a tar header at byte {} whose size is not a number", archive, at);
    size = *bytes;
    name = until_zero(block.substr(0, 100));
    const bool posix = block.substr(257, 6) == std::string_view("ustar\0", 6);
    const std::string_view prefix = until_zero(block.substr(345, 155));
    if (posix && !prefix.empty()) name = std::string(prefix) + "/" + name;
  }

  [[nodiscard]] bool is_extension() const {
    return type == 'x' || type == 'g' || type == 'L' || type == 'K';
  }
  [[nodiscard]] bool is_file() const { return type == '0' || type == '\0' || type == '7'; }
  // By POSIX, links, devices, folders and pipes have no content, whatever their size field
  // contains.
  [[nodiscard]] bool has_content() const { return type < '1' || type > '6'; }
};

/// The name and size that extension headers set for the next member.
struct TarReader::Overrides {
  std::optional<std::string> name;
  std::optional<std::uint64_t> size;
};

TarReader::TarReader(ByteSource& source, std::string name)
    : source_(source), name_(printable(name)) {}

bool TarReader::next(TarMember& member) {
  Overrides overrides;
  while (true) {
    finish_member();
    Block block;
    const std::uint64_t at = offset_;
    if (!read_block(block, "the next block")) {
      read_end();
      return false;
    }
    const Header header({reinterpret_cast<const char*>(block.data()), block.size()}, at, name_);
    ENSURE(data, header.type != 'S',
           "{} has a sparse file at byte {}\nhint: create the archive with tar without --sparse",
           name_, at);
    if (header.is_extension()) {
      extend(header, overrides);
      continue;
    }
    const std::uint64_t size = header.has_content() ? overrides.size.value_or(header.size) : 0;
    ENSURE(data, size <= source_.most() && offset_ <= source_.most() - size,
           "{} has a file of {} bytes at byte {}, more than the rest of the archive", name_, size,
           at);
    left_ = size;
    padding_ = padding_of(size);
    // In old archives a trailing slash marks a folder.
    std::string name = overrides.name ? *std::move(overrides.name) : header.name;
    overrides = {};
    if (!header.is_file() || name.ends_with('/')) continue;
    member = {std::move(name), offset_, size};
    return true;
  }
}

void TarReader::read_part(std::span<std::byte> out) {
  ASSERT(out.size() <= left_);
  read_exactly(out, "the last file");
  left_ -= out.size();
}

std::string TarReader::read_text(std::uint64_t most) {
  ENSURE(data, left_ <= most,
         "{} has a text file of {} bytes at byte {}, more than the limit of {} bytes", name_, left_,
         offset_, most);
  std::string text(left_, '\0');
  read_part(std::as_writable_bytes(std::span(text)));
  return text;
}

// Returns false for a zero block.
bool TarReader::read_block(std::span<std::byte> block, const char* what) {
  read_exactly(block, what);
  return std::any_of(block.begin(), block.end(), [](std::byte b) { return b != std::byte{0}; });
}

void TarReader::read_exactly(std::span<std::byte> out, const char* what) {
  const std::size_t got = source_.read(out);
  ENSURE(data, got == out.size(), "{} is cut off at byte {}: {} must end at byte {}", name_,
         offset_ + got, what, offset_ + out.size());
  offset_ += got;
}

void TarReader::finish_member() {
  const std::uint64_t wanted = left_ + padding_;
  const std::uint64_t got = source_.skip(wanted);
  ENSURE(data, got == wanted, "{} is cut off at byte {}: the last file must end at byte {}", name_,
         offset_ + got, offset_ + wanted);
  offset_ += got;
  left_ = padding_ = 0;
}

void TarReader::read_end() {
  Block block;
  ENSURE(data, !read_block(block, "the end mark"),
         "{} is damaged: it must end with two zero blocks, but has only one, at byte {}", name_,
         offset_ - 2 * kBlock);
  std::array<std::byte, 16 * kBlock> rest;
  while (true) {
    const std::size_t got = source_.read(rest);
    const auto end = rest.begin() + static_cast<std::ptrdiff_t>(got);
    const auto found =
        std::find_if(rest.begin(), end, [](std::byte b) { return b != std::byte{0}; });
    ENSURE(data, found == end,
           "{} continues at byte {} after its end mark\nhint: create one archive instead of "
           "joining several",
           name_, offset_ + static_cast<std::uint64_t>(found - rest.begin()));
    offset_ += got;
    if (got < rest.size()) return;
  }
}

void TarReader::extend(const Header& header, Overrides& overrides) {
  ENSURE(data, header.size <= kMostExtension,
         "{} has an extended header of {} bytes at byte {}, more than the limit of {} bytes", name_,
         header.size, header.at, kMostExtension);
  left_ = header.size;
  padding_ = padding_of(header.size);
  if (header.type == 'x') {
    const std::uint64_t at = offset_;
    read_pax(read_text(kMostExtension), at, overrides);
  } else if (header.type == 'L') {
    overrides.name = std::string(until_zero(read_text(kMostExtension)));
  }
  // 'K' (a link target) and 'g' (defaults for all members) are not needed here.
}

/// Parses records of the form "<length> <key>=<value>\n".
void TarReader::read_pax(const std::string& records, std::uint64_t at, Overrides& overrides) const {
  std::string_view rest = records;
  while (!rest.empty()) {
    std::uint64_t length = 0;
    const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(end - rest.data());
    const bool sound = failure == std::errc{} && length <= rest.size() && length > digits + 1 &&
                       rest[digits] == ' ' && rest[length - 1] == '\n';
    ENSURE(data, sound, "{} has a pax header at byte {}, which is damaged at byte {}", name_, at,
           at + (records.size() - rest.size()));
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    const std::string_view key = record.substr(0, record.find('='));
    const std::string_view value = record.substr(std::min(key.size() + 1, record.size()));
    if (key == "path") overrides.name = std::string(value);
    if (key == "size") {
      overrides.size = parse_number<std::uint64_t>(value);
      ENSURE(data, overrides.size && *overrides.size < kMostSize,
             "{} has a pax header at byte {} whose size is not a number", name_, at);
    }
    ENSURE(data, !key.starts_with("GNU.sparse."),
           "{} has a sparse file at byte {}\nhint: create the archive with tar without --sparse",
           name_, at);
    rest.remove_prefix(length);
  }
}

}  // namespace trainctl::data
