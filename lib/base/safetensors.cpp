#include "base/safetensors.hpp"

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/strings.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <set>

namespace trainctl::safetensors {
namespace {

constexpr std::uint64_t kMaxHeader = 100'000'000;  // the reference implementation's cap
constexpr std::size_t kPrefix = 8;

void append_length(std::string& out, std::uint64_t value) {
  for (int shift = 0; shift < 64; shift += 8)
    out.push_back(static_cast<char>((value >> shift) & 0xff));
}

std::uint64_t read_length(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kPrefix; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

std::string header_of(std::span<const View> tensors,
                      const std::map<std::string, std::string>& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const View& tensor : tensors) {
    const std::uint64_t end = offset + tensor.bytes.size();
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = to_line(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

/// product(shape) * size of an element, or nothing where it overflows.
bool byte_count(const std::vector<std::int64_t>& shape, std::size_t element, std::uint64_t& bytes) {
  bytes = element;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
      return false;
  }
  return true;
}

/// Objects of the header's depth or less: nlohmann's parser recurses, so depth is cut while it
/// reads.
Json parse_header(std::string_view text) {
  std::vector<std::set<std::string>> keys;
  const auto check = [&keys](int depth, Json::parse_event_t event, Json& value) {
    ENSURE(checkpoint, depth <= 4, "the header is nested too deeply");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = value.get_ref<const std::string&>();
      ENSURE(checkpoint, keys.back().insert(key).second, "the header names '{}' twice",
             printable(key));
    }
    return true;
  };
  return Json::parse(text.begin(), text.end(), check);
}

View parse_tensor(const std::string& name, const Json& entry, std::span<const std::byte> data) {
  View view{name, entry.at("dtype").get<std::string>(), {}, {}};
  const std::size_t element = element_bytes(view.dtype);
  ENSURE(checkpoint, element > 0, "unknown dtype '{}'", printable(view.dtype));
  for (const Json& extent : entry.at("shape")) {
    ENSURE(checkpoint, extent.is_number_unsigned(), "a size in the shape is not a whole number");
    view.shape.push_back(extent.get<std::int64_t>());
  }
  const Json& offsets = entry.at("data_offsets");
  ENSURE(checkpoint,
         offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
             offsets[1].is_number_unsigned(),
         "data_offsets must be two whole numbers");
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  std::uint64_t bytes = 0;
  ENSURE(checkpoint, begin <= end && end <= data.size(),
         "data_offsets {} to {} leave the data of {} bytes", begin, end, data.size());
  ENSURE(checkpoint, byte_count(view.shape, element, bytes) && bytes == end - begin,
         "shape and dtype do not give the {} bytes of its data_offsets", end - begin);
  view.bytes = data.subspan(begin, end - begin);
  return view;
}

void check_layout(std::vector<View>& tensors, std::span<const std::byte> data) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const View& a, const View& b) { return a.bytes.data() < b.bytes.data(); });
  const std::byte* expected = data.data();
  for (const View& tensor : tensors) {
    ENSURE(checkpoint, tensor.bytes.data() == expected,
           "tensor '{}' leaves a hole or overlaps another", printable(tensor.name));
    expected += tensor.bytes.size();
  }
  ENSURE(checkpoint, expected == data.data() + data.size(),
         "{} bytes at the end belong to no tensor", data.data() + data.size() - expected);
}

std::string read_whole(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  ENSURE(checkpoint, in.is_open(), "cannot open it");
  std::string bytes(static_cast<std::size_t>(std::max<std::streamoff>(in.tellg(), 0)), '\0');
  in.seekg(0);
  in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ENSURE(checkpoint, in.good() || bytes.empty(), "reading it failed");
  return bytes;
}

}  // namespace

std::size_t element_bytes(std::string_view dtype) {
  struct Row {
    std::string_view name;
    std::size_t bytes;
  };
  static constexpr std::array<Row, 12> kRows{{{"F32", 4},
                                              {"F64", 8},
                                              {"F16", 2},
                                              {"BF16", 2},
                                              {"I64", 8},
                                              {"I32", 4},
                                              {"I16", 2},
                                              {"I8", 1},
                                              {"U8", 1},
                                              {"BOOL", 1},
                                              {"U16", 2},
                                              {"U32", 4}}};
  const auto* row =
      std::find_if(kRows.begin(), kRows.end(), [&](const Row& r) { return r.name == dtype; });
  return row == kRows.end() ? 0 : row->bytes;
}

void write(const std::filesystem::path& path, std::span<const View> tensors,
           const std::map<std::string, std::string>& metadata) {
  const std::string header = header_of(tensors, metadata);
  std::string head;
  append_length(head, header.size());
  head += header;
  write_atomically(path, [&](int fd) {
    write_all(fd, head, path.string());
    for (const View& tensor : tensors) {
      write_all(fd, {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()},
                path.string());
    }
  });
}

File::File(const std::filesystem::path& path) {
  in_context(path.string(), [&] {
    bytes_ = read_whole(path);
    ENSURE(checkpoint, bytes_.size() >= kPrefix, "{} bytes are too few for a safetensors file",
           bytes_.size());
    const std::uint64_t length = read_length(bytes_);
    ENSURE(checkpoint, length <= kMaxHeader && length <= bytes_.size() - kPrefix,
           "its header claims {} bytes, but {} bytes follow: not a safetensors file, or cut off",
           length, bytes_.size() - kPrefix);
    const auto data = std::as_bytes(std::span(bytes_)).subspan(kPrefix + length);
    try {
      const Json header = parse_header(std::string_view(bytes_).substr(kPrefix, length));
      ENSURE(checkpoint, header.is_object(), "its header is not a JSON object");
      for (const auto& [name, entry] : header.items()) {
        if (name == "__metadata__") {
          metadata_ = entry.get<std::map<std::string, std::string>>();
        } else {
          tensors_.push_back(in_context("tensor '" + printable(name) + "'",
                                        [&] { return parse_tensor(name, entry, data); }));
        }
      }
    } catch (const Json::exception& error) {
      throw Error(ErrorKind::checkpoint,
                  fmt::format("its header is not valid: {}", printable(error.what())));
    }
    check_layout(tensors_, data);
  });
}

}  // namespace trainctl::safetensors
