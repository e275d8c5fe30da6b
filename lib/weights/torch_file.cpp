#include "weights/torch_file.hpp"

#include "base/error.hpp"
#include "base/safetensors.hpp"
#include "base/strings.hpp"
#include "weights/pickle.hpp"
#include "weights/zip.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <utility>

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

}  // namespace trainctl::weights
