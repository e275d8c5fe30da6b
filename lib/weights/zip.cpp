#include "weights/zip.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <zlib.h>

#include <algorithm>
#include <utility>

// The format is PKWARE's APPNOTE.TXT, https://www.pkware.com/appnote; the numeric constants are its
// offsets.

namespace trainctl::weights {
namespace {

constexpr std::uint32_t kLocalHeader = 0x04034b50;
constexpr std::uint32_t kDirectoryHeader = 0x02014b50;
constexpr std::uint32_t kEnd = 0x06054b50;
constexpr std::uint32_t kZip64Locator = 0x07064b50;
constexpr std::uint32_t kZip64End = 0x06064b50;
constexpr std::size_t kEndBytes = 22;
constexpr std::size_t kLocatorBytes = 20;
constexpr std::size_t kDirectoryHeaderBytes = 46;
constexpr std::size_t kMaxComment = 0xffff;
constexpr std::uint16_t kAll16 = 0xffff;
constexpr std::uint32_t kAll32 = 0xffffffff;

using Bytes = std::span<const std::byte>;

/// Reads consecutive numbers of an archive.
class Cursor {
 public:
  Cursor(Bytes bytes, std::uint64_t at) : bytes_(bytes), at_(at) {}

  std::uint16_t u16() { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() { return number(8); }
  Bytes take(std::uint64_t count) {
    ENSURE(checkpoint, at_ <= bytes_.size() && count <= bytes_.size() - at_,
           "the ZIP archive is truncated: {} bytes are missing at byte {}", count, at_);
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  [[nodiscard]] std::uint64_t at() const { return at_; }

 private:
  std::uint64_t number(std::size_t size) { return from_little_endian(as_text(take(size))); }

  Bytes bytes_;
  std::uint64_t at_;
};

struct Directory {
  std::uint64_t entries = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  std::uint64_t end = 0;  // start of the record after the directory
};

/// A comment may follow the last record, so the search starts at the end.
std::uint64_t find_end(Bytes archive) {
  if (archive.size() >= kEndBytes) {
    const std::size_t last = archive.size() - kEndBytes;
    for (std::size_t back = 0; back <= std::min(last, kMaxComment); ++back) {
      if (Cursor(archive, last - back).u32() == kEnd &&
          Cursor(archive, last - back + kEndBytes - 2).u16() == back)
        return last - back;
    }
  }
  throw Error(ErrorKind::checkpoint,
              "the file is truncated or not a ZIP archive: its table of contents is missing");
}

Directory zip64_directory(Bytes archive, std::uint64_t end) {
  ENSURE(checkpoint, end >= kLocatorBytes, "its ZIP64 table of contents is missing");
  Cursor locator(archive, end - kLocatorBytes);
  ENSURE(checkpoint, locator.u32() == kZip64Locator && locator.u32() == 0,
         "its ZIP64 table of contents is missing");
  const std::uint64_t at = locator.u64();
  Cursor record(archive, at);
  ENSURE(checkpoint, record.u32() == kZip64End, "its ZIP64 table of contents is not at byte {}",
         at);
  record.take(8 + 2 + 2);  // size and versions
  ENSURE(checkpoint, record.u32() == 0 && record.u32() == 0, "it is part of a split ZIP archive");
  const std::uint64_t here = record.u64();
  Directory directory{.entries = record.u64(), .end = at};
  ENSURE(checkpoint, here == directory.entries, "it is part of a split ZIP archive");
  directory.size = record.u64();
  directory.offset = record.u64();
  return directory;
}

Directory find_directory(Bytes archive) {
  const std::uint64_t end = find_end(archive);
  Cursor record(archive, end + 4);
  ENSURE(checkpoint, record.u16() == 0 && record.u16() == 0, "it is part of a split ZIP archive");
  const std::uint16_t here = record.u16();
  Directory directory{.entries = record.u16(), .end = end};
  directory.size = record.u32();
  directory.offset = record.u32();
  if (directory.entries == kAll16 || directory.size == kAll32 || directory.offset == kAll32) {
    directory = zip64_directory(archive, end);
  } else {
    ENSURE(checkpoint, here == directory.entries, "it is part of a split ZIP archive");
  }
  ENSURE(
      checkpoint,
      directory.offset <= directory.end && directory.size <= directory.end - directory.offset,
      "its ZIP table of contents is damaged: it has {} bytes from byte {}, but must end by byte {}",
      directory.size, directory.offset, directory.end);
  ENSURE(checkpoint, directory.entries <= directory.size / kDirectoryHeaderBytes,
         "its ZIP table of contents has {} bytes, too few for {} files", directory.size,
         directory.entries);
  return directory;
}

struct Record {
  std::string_view name;
  std::uint64_t packed = 0;
  std::uint64_t size = 0;
  std::uint64_t offset = 0;
  std::uint32_t crc = 0;
  std::uint16_t flags = 0;
  std::uint16_t method = 0;
};

/// Extra field 1 contains, in this order, the values that do not fit into 32 bits.
void read_zip64_sizes(Record& record, Bytes extra) {
  Cursor cursor(extra, 0);
  while (extra.size() - cursor.at() >= 4) {
    const std::uint16_t id = cursor.u16();
    const Bytes field = cursor.take(cursor.u16());
    if (id != 1) continue;
    Cursor sizes(field, 0);
    for (std::uint64_t* one : {&record.size, &record.packed, &record.offset}) {
      if (*one == kAll32) *one = sizes.u64();
    }
    return;
  }
}

Record read_record(Cursor& cursor) {
  ENSURE(checkpoint, cursor.u32() == kDirectoryHeader,
         "its ZIP table of contents is damaged at byte {}", cursor.at() - 4);
  Record record;
  cursor.take(4);  // versions
  record.flags = cursor.u16();
  record.method = cursor.u16();
  cursor.take(4);  // time and date
  record.crc = cursor.u32();
  record.packed = cursor.u32();
  record.size = cursor.u32();
  const std::uint16_t name = cursor.u16();
  const std::uint16_t extra = cursor.u16();
  const std::uint16_t comment = cursor.u16();
  cursor.take(2 + 2 + 4);  // disk and attributes
  record.offset = cursor.u32();
  record.name = as_text(cursor.take(name));
  read_zip64_sizes(record, cursor.take(extra));
  cursor.take(comment);
  return record;
}

ZipEntry locate(const Record& record, Bytes files) {
  ENSURE(checkpoint, (record.flags & 1U) == 0, "it is encrypted");
  ENSURE(checkpoint, record.method == 0 && record.packed == record.size,
         "it is compressed, but torch.save does not compress: the archive is a TorchScript "
         "program, or was packed by another program");
  Cursor local(files, record.offset);
  ENSURE(checkpoint, local.u32() == kLocalHeader,
         "its entry in the ZIP table of contents points to byte {}, where no file starts",
         record.offset);
  local.take(22);  // fields that the directory also contains
  const std::uint16_t name = local.u16();
  const std::uint16_t extra = local.u16();
  ENSURE(checkpoint, as_text(local.take(name)) == record.name,
         "its header at byte {} has another name than the ZIP table of contents", record.offset);
  local.take(extra);
  return {record.name, local.take(record.size), record.crc};
}

/// Checks that names are unique and bytes do not overlap. An archive that counts the same bytes
/// many times is a decompression bomb.
void check_distinct(std::vector<ZipEntry> entries) {
  std::ranges::sort(entries, {}, &ZipEntry::name);
  const auto twice = std::ranges::adjacent_find(entries, {}, &ZipEntry::name);
  ENSURE(checkpoint, twice == entries.end(), "the ZIP archive has two files '{}'",
         printable(twice->name));
  std::erase_if(entries, [](const ZipEntry& entry) { return entry.bytes.empty(); });
  std::ranges::sort(entries, {}, [](const ZipEntry& entry) { return entry.bytes.data(); });
  const auto overlap = std::ranges::adjacent_find(entries, [](const auto& a, const auto& b) {
    return a.bytes.data() + a.bytes.size() > b.bytes.data();
  });
  ENSURE(checkpoint, overlap == entries.end(), "file '{}' overlaps another file of the ZIP archive",
         printable(overlap->name));
}

}  // namespace

std::vector<ZipEntry> zip_entries(std::span<const std::byte> archive) {
  const Directory directory = find_directory(archive);
  const Bytes files = archive.first(directory.offset);
  Cursor cursor(archive.first(directory.offset + directory.size), directory.offset);
  std::vector<ZipEntry> entries;
  for (std::uint64_t i = 0; i < directory.entries; ++i) {
    const Record record = read_record(cursor);
    entries.push_back(
        in_context("file '" + printable(record.name) + "'", [&] { return locate(record, files); }));
  }
  check_distinct(entries);
  return entries;
}

void check_crc(const ZipEntry& entry) {
  const auto* bytes = reinterpret_cast<const Bytef*>(entry.bytes.data());
  const std::uint64_t found = ::crc32_z(0, bytes, entry.bytes.size());
  ENSURE(checkpoint, found == entry.crc,
         "file '{}' of the ZIP archive is damaged: its checksum is {:08x}, expected {:08x}\nhint: "
         "download the archive again",
         printable(entry.name), found, entry.crc);
}

}  // namespace trainctl::weights
