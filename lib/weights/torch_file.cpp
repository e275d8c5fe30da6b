#include "weights/torch_file.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/safetensors.hpp"
#include "base/strings.hpp"
#include "weights/pickle.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <array>
#include <set>

// The archives are those of PKWARE's APPNOTE.TXT, https://www.pkware.com/appnote; the numeric
// constants are its offsets.

namespace trainctl::weights {
namespace {

constexpr std::string_view kPickle = "/data.pkl";
// Views of one storage may overlap, so a small file can describe many bytes.
constexpr std::uint64_t kMostGrowth = 8;
constexpr std::uint64_t kFreeGrowth = 1 << 20;
// The keys under which Lightning, timm and custom scripts store the weights.
constexpr std::array<std::string_view, 6> kNests{"state_dict",     "model_state_dict", "model",
                                                 "state_dict_ema", "model_ema",        "net"};

std::string quoted(std::string_view name) { return "'" + printable(name.substr(0, 100)) + "'"; }

std::string listed(const std::vector<std::string_view>& names) {
  return shortened(std::vector<std::string>(names.begin(), names.end()));
}

/// The members of an archive by their names below its root folder.
class Archive {
 public:
  Archive(std::span<const std::byte> file, Verify verify) : entries_(zip_entries(file)) {
    const auto pickle = std::ranges::find_if(entries_, [](const ZipEntry& entry) {
      return entry.name.ends_with(kPickle) &&
             entry.name.find('/') == entry.name.size() - kPickle.size();
    });
    ENSURE(checkpoint, pickle != entries_.end(),
           "it is a ZIP archive without the file data.pkl, which torch.save writes\nhint: {}",
           kSaveAdvice);
    folder_ = pickle->name.substr(0, pickle->name.size() - kPickle.size() + 1);
    for (const ZipEntry& entry : entries_) by_name_.emplace(entry.name, &entry);
    ENSURE(checkpoint, find("constants.pkl") == nullptr, "it is a TorchScript program\nhint: {}",
           kSaveAdvice);
    const ZipEntry* order = find("byteorder");
    ENSURE(checkpoint, order == nullptr || as_text(order->bytes) == "little",
           "its numbers are not little-endian");
    for (const ZipEntry& entry : entries_) {
      if (verify == Verify::checksums || &entry == &*pickle) check_crc(entry);
    }
    pickle_ = as_text(pickle->bytes);
  }

  [[nodiscard]] std::string_view pickle() const { return pickle_; }
  /// Returns null if there is no such member.
  [[nodiscard]] const ZipEntry* find(std::string_view name) const {
    const auto found = by_name_.find(std::string(folder_).append(name));
    return found == by_name_.end() ? nullptr : found->second;
  }

 private:
  std::vector<ZipEntry> entries_;
  std::map<std::string, const ZipEntry*, std::less<>> by_name_;
  std::string_view folder_;
  std::string_view pickle_;
};

bool holds_tensor(const Pickle& pickle, const PickleValue& dict) {
  if (dict.kind != PickleKind::dict) return false;
  for (std::size_t i = 1; i < dict.items.size(); i += 2) {
    if (pickle[dict.items[i]].kind == PickleKind::tensor) return true;
  }
  return false;
}

/// Returns the string keys of a dict whose values pass the test.
std::vector<std::string_view> keys_of(const Pickle& pickle, const PickleValue& dict,
                                      const auto& passes) {
  std::vector<std::string_view> keys;
  for (std::size_t i = 0; i < dict.items.size(); i += 2) {
    const PickleValue& key = pickle[dict.items[i]];
    if (key.kind == PickleKind::text && passes(pickle[dict.items[i + 1]])) keys.push_back(key.text);
  }
  return keys;
}

/// Returns the dict with tensors under the first key of that name, or null.
const PickleValue* find_section(const Pickle& pickle, const PickleValue& root,
                                std::string_view name) {
  for (std::size_t i = 0; i < root.items.size(); i += 2) {
    const PickleValue& key = pickle[root.items[i]];
    const PickleValue& value = pickle[root.items[i + 1]];
    if (key.kind != PickleKind::text || key.text != name) continue;
    return holds_tensor(pickle, value) ? &value : nullptr;
  }
  return nullptr;
}

const PickleValue& section_called(const std::string& section, const Pickle& pickle,
                                  const PickleValue& root) {
  if (const PickleValue* found = find_section(pickle, root, section)) return *found;
  const std::vector<std::string_view> others =
      keys_of(pickle, root, [&](const PickleValue& value) { return holds_tensor(pickle, value); });
  throw Error(ErrorKind::checkpoint,
              fmt::format("it has no section {} with tensors{}", quoted(std::string_view(section)),
                          others.empty() ? "\nhint: remove weights.section or --section"
                                         : "; sections with tensors: " + listed(others)));
}

/// Returns the dict that contains the tensors: the root object, or a dict one level below.
const PickleValue& find_state_dict(const Pickle& pickle, const std::string& section,
                                   std::vector<std::string>& notes) {
  const PickleValue& root = pickle[pickle.root];
  ENSURE(checkpoint, root.kind == PickleKind::dict,
         "it contains no dict of named tensors\nhint: {}", kSaveAdvice);
  if (!section.empty()) return section_called(section, pickle, root);
  if (holds_tensor(pickle, root)) return root;
  for (const std::string_view nest : kNests) {
    const PickleValue* value = find_section(pickle, root, nest);
    if (value == nullptr) continue;
    notes.push_back(fmt::format("the tensors are from section '{}', one of {} keys of the file",
                                nest, root.items.size() / 2));
    return *value;
  }
  throw Error(ErrorKind::checkpoint,
              fmt::format("it contains no named tensors; its keys are: {}\nhint: {}",
                          listed(keys_of(pickle, root, [](const PickleValue&) { return true; })),
                          kSaveAdvice));
}

std::vector<std::int64_t> integers(const Pickle& pickle, PickleId tuple) {
  std::vector<std::int64_t> values;
  for (const PickleId id : pickle[tuple].items) values.push_back(pickle[id].integer);
  return values;
}

/// Computes the end offset and size of the view. Returns false when it is invalid.
bool end_of_window(const TorchTensor& tensor, std::int64_t& end, std::int64_t& elements) {
  if (tensor.offset < 0) return false;
  end = tensor.offset;
  elements = 1;
  for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
    std::int64_t reach = 0;
    if (tensor.shape[d] < 0 || tensor.strides[d] < 0 ||
        __builtin_mul_overflow(elements, tensor.shape[d], &elements))
      return false;
    if (tensor.shape[d] > 0 &&
        (__builtin_mul_overflow(tensor.shape[d] - 1, tensor.strides[d], &reach) ||
         __builtin_add_overflow(end, reach, &end)))
      return false;
  }
  return elements == 0 || !__builtin_add_overflow(end, 1, &end);
}

/// Subtracts the bytes of the tensor from the growth that is still allowed.
TorchTensor tensor_of(const Pickle& pickle, const PickleValue& value, const Archive& archive,
                      std::uint64_t& bytes_left) {
  const PickleValue& storage = pickle[value.items[0]];
  const ZipEntry* entry = archive.find("data/" + std::string(storage.text.substr(0, 100)));
  ENSURE(checkpoint, entry != nullptr, "its storage 'data/{}' is not in the file",
         printable(storage.text.substr(0, 100)));
  const std::size_t element = safetensors::element_bytes(storage.dtype);
  ENSURE(checkpoint,
         entry->bytes.size() % element == 0 &&
             entry->bytes.size() / element == static_cast<std::uint64_t>(storage.integer),
         "its storage has {} bytes, which is not the size of {} elements of type {}",
         entry->bytes.size(), storage.integer, storage.dtype);
  TorchTensor tensor{.name = {},
                     .dtype = storage.dtype,
                     .shape = integers(pickle, value.items[1]),
                     .strides = integers(pickle, value.items[2]),
                     .offset = value.integer,
                     .storage = entry->bytes};
  std::int64_t end = 0;
  std::int64_t elements = 0;
  ENSURE(checkpoint,
         end_of_window(tensor, end, elements) && (elements == 0 || end <= storage.integer),
         "its shape and strides exceed its storage of {} elements", storage.integer);
  std::uint64_t bytes = 0;
  ENSURE(checkpoint, !__builtin_mul_overflow(static_cast<std::uint64_t>(elements), element, &bytes),
         "it has too many elements");
  ENSURE(checkpoint, bytes <= bytes_left,
         "this tensor and those before it take more than {} times the size of the file",
         kMostGrowth);
  bytes_left -= bytes;
  return tensor;
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d > 1; --d) strides[d - 2] = strides[d - 1] * shape[d - 1];
  return strides;
}

std::int64_t count(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return elements;
}

bool is_dense(const TorchTensor& tensor) {
  const std::vector<std::int64_t> dense = dense_strides(tensor.shape);
  for (std::size_t d = 0; d < dense.size(); ++d) {
    if (tensor.strides[d] != dense[d] && tensor.shape[d] != 1) return false;
  }
  return true;
}

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

TorchFile read_torch_file(std::span<const std::byte> file, Verify verify,
                          const std::string& section) {
  const Archive archive(file, verify);
  const Pickle pickle = in_context("data.pkl", [&] { return read_pickle(archive.pickle()); });
  TorchFile out;
  const PickleValue& dict = find_state_dict(pickle, section, out.notes);
  std::set<std::string_view> names;
  std::vector<std::string_view> others;
  std::uint64_t bytes_left = file.size() * kMostGrowth + kFreeGrowth;
  for (std::size_t i = 0; i < dict.items.size(); i += 2) {
    const PickleValue& key = pickle[dict.items[i]];
    const PickleValue& value = pickle[dict.items[i + 1]];
    ENSURE(checkpoint, key.kind == PickleKind::text, "a key of the state dict is not a string");
    ENSURE(checkpoint, key.text != "__metadata__",
           "the state dict has the key '__metadata__', which safetensors reserves");
    ENSURE(checkpoint, names.insert(key.text).second, "the state dict has the key {} twice",
           quoted(key.text));
    if (value.kind != PickleKind::tensor) {
      others.push_back(key.text);
      continue;
    }
    out.tensors.push_back(in_context("tensor " + quoted(key.text), [&] {
      return tensor_of(pickle, value, archive, bytes_left);
    }));
    out.tensors.back().name = key.text;
  }
  if (!others.empty()) out.notes.push_back("ignored keys that are not tensors: " + listed(others));
  return out;
}

std::span<const std::byte> row_major(const TorchTensor& tensor, std::vector<std::byte>& copy) {
  const std::size_t element = safetensors::element_bytes(tensor.dtype);
  const auto elements = static_cast<std::size_t>(count(tensor.shape));
  const auto offset = static_cast<std::size_t>(tensor.offset);
  if (elements == 0) return {};
  if (is_dense(tensor)) return tensor.storage.subspan(offset * element, elements * element);
  copy.resize(elements * element);
  std::vector<std::int64_t> index(tensor.shape.size(), 0);
  std::int64_t from = tensor.offset;
  for (std::size_t to = 0; to < elements; ++to) {
    std::memcpy(copy.data() + to * element,
                tensor.storage.data() + static_cast<std::size_t>(from) * element, element);
    for (std::size_t d = index.size(); d-- > 0;) {
      if (tensor.shape[d] == 1) continue;  // the stride of such a dimension may have any value
      from += tensor.strides[d];
      if (++index[d] < tensor.shape[d]) break;
      from -= tensor.strides[d] * tensor.shape[d];
      index[d] = 0;
    }
  }
  return copy;
}

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
