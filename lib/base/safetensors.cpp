#include "base/safetensors.hpp"

#include "base/json.hpp"
#include "base/numbers.hpp"
#include "base/strings.hpp"

#include <unistd.h>

#include <cerrno>
#include <set>

namespace trainctl::safetensors {
namespace {

using Header = nlohmann::json;  // finds a key quickly among any number of keys

constexpr std::uint64_t kMaxHeader = 100'000'000;  // limit of the reference implementation
constexpr std::size_t kPrefix = 8;

std::string header_of(std::span<const View> tensors,
                      const std::map<std::string, std::string>& metadata) {
  // Names are appended without a search for an existing one, which would take quadratic time.
  Json::object_t header;
  if (!metadata.empty()) header.emplace_back("__metadata__", metadata);
  std::uint64_t offset = 0;
  for (const View& tensor : tensors) {
    const std::uint64_t end = offset + tensor.bytes.size();
    header.emplace_back(
        tensor.name,
        Json{{"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}});
    offset = end;
  }
  std::string text = to_line(header);
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

/// Rejects what the JSON parser accepts silently: deep nesting and duplicate names. It is a
/// separate SAX pass, since the callbacks of the parser take quadratic time.
class HeaderCheck final : public nlohmann::json_sax<Header> {
 public:
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(std::int64_t /*value*/) override { return true; }
  bool number_unsigned(std::uint64_t /*value*/) override { return true; }
  bool number_float(double /*value*/, const std::string& /*text*/) override { return true; }
  bool string(std::string& /*value*/) override { return true; }
  bool binary(Header::binary_t& /*value*/) override { return true; }
  bool start_object(std::size_t /*size*/) override { return open(); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    ENSURE(checkpoint, keys_.back().insert(name).second, "the header contains '{}' twice",
           printable(name));
    return true;
  }
  bool parse_error(std::size_t /*at*/, const std::string& /*token*/,
                   const Header::exception& /*error*/) override {
    return false;  // the parser reports more detail
  }

 private:
  bool open() {
    keys_.emplace_back();
    ENSURE(checkpoint, keys_.size() <= 4, "the header is nested too deeply");
    return true;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> keys_;  // of each open object or array
};

Header parse_header(std::string_view text) {
  HeaderCheck check;
  (void)Header::sax_parse(text, &check);
  return Header::parse(text);
}

View parse_tensor(const std::string& name, const Header& entry, std::span<const std::byte> data) {
  View view{name, entry.at("dtype").get<std::string>(), {}, {}};
  const std::size_t element = element_bytes(view.dtype);
  ENSURE(checkpoint, element > 0, "unknown dtype '{}'", printable(view.dtype));
  for (const Header& extent : entry.at("shape")) {
    ENSURE(checkpoint, extent.is_number_unsigned(),
           "a size in its shape must be a non-negative integer");
    view.shape.push_back(extent.get<std::int64_t>());
  }
  const Header& offsets = entry.at("data_offsets");
  ENSURE(checkpoint,
         offsets.is_array() && offsets.size() == 2 && offsets[0].is_number_unsigned() &&
             offsets[1].is_number_unsigned(),
         "its data_offsets must be two whole numbers");
  const auto begin = offsets[0].get<std::uint64_t>();
  const auto end = offsets[1].get<std::uint64_t>();
  ENSURE(checkpoint, begin <= end && end <= data.size(),
         "its data_offsets must be within the {} bytes of data, got {} to {}", data.size(), begin,
         end);
  const auto needed = byte_count(view.shape, element);
  ENSURE(checkpoint, needed == end - begin,
         "its shape and dtype need {} bytes, but its data_offsets cover {} bytes",
         needed ? std::to_string(*needed) : "more than 2^64", end - begin);
  view.bytes = data.subspan(begin, end - begin);
  return view;
}

void check_layout(std::vector<View>& tensors, std::span<const std::byte> data) {
  std::stable_sort(tensors.begin(), tensors.end(), [](const View& a, const View& b) {
    return std::pair(a.bytes.data(), a.bytes.size()) <
           std::pair(b.bytes.data(), b.bytes.size());  // an empty tensor comes first
  });
  const std::byte* expected = data.data();
  for (const View& tensor : tensors) {
    ENSURE(checkpoint, tensor.bytes.data() == expected,
           "the bytes of tensor '{}' must follow directly after those of the previous tensor",
           printable(tensor.name));
    expected += tensor.bytes.size();
  }
  ENSURE(checkpoint, expected == data.data() + data.size(),
         "the file has {} byte{} after the end of its last tensor",
         data.data() + data.size() - expected, plural(data.data() + data.size() - expected));
}

/// Reads the header into memory: it is parsed twice, and a mapping could change in between.
std::string read_head(int fd, std::size_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t done = 0; done < size;) {
    const ssize_t count =
        ::pread(fd, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    ENSURE(checkpoint, count > 0, "cannot read it: {}",
           count == 0 ? "the file was truncated while it was read" : std::strerror(errno));
    done += static_cast<std::size_t>(count);
  }
  return bytes;
}

}  // namespace

std::size_t element_bytes(std::string_view dtype) {
  using Names = std::initializer_list<std::string_view>;
  const auto is_one_of = [&](Names names) {
    return std::ranges::find(names, dtype) != names.end();
  };
  if (is_one_of({"F64", "I64", "U64"})) return 8;
  if (is_one_of({"F32", "I32", "U32"})) return 4;
  if (is_one_of({"F16", "BF16", "I16", "U16"})) return 2;
  return is_one_of({"I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2"}) ? 1 : 0;
}

std::optional<std::uint64_t> byte_count(std::span<const std::int64_t> shape, std::size_t element) {
  std::uint64_t bytes = element;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes))
      return std::nullopt;
  }
  return bytes;
}

void write_to(int fd, std::span<const View> tensors,
              const std::map<std::string, std::string>& metadata, const std::string& label) {
  const std::string header = header_of(tensors, metadata);
  write_all(fd, little_endian(header.size(), kPrefix) + header, label);
  for (const View& tensor : tensors) write_all(fd, as_text(tensor.bytes), label);
}

void write(const std::filesystem::path& path, std::span<const View> tensors,
           const std::map<std::string, std::string>& metadata) {
  write_atomically(path, [&](int fd) { write_to(fd, tensors, metadata, path.string()); });
}

File::File(const std::filesystem::path& path)
    : mapping_(in_context(printable(path.string()),
                          [&] { return FileMapping(path, ErrorKind::checkpoint); })) {
  in_context(printable(path.string()), [&] {
    const std::span<const std::byte> file = mapping_.bytes();
    ENSURE(checkpoint, file.size() >= kPrefix,
           "truncated or not a safetensors file: it has only {} bytes", file.size());
    const std::uint64_t length = from_little_endian(read_head(mapping_.fd(), 0, kPrefix));
    ENSURE(checkpoint, length <= kMaxHeader && length <= file.size() - kPrefix,
           "truncated or not a safetensors file: its first 8 bytes announce a header of {} bytes, "
           "but {} bytes follow",
           length, file.size() - kPrefix);
    parse(read_head(mapping_.fd(), kPrefix, length), file.subspan(kPrefix + length));
  });
}

void File::parse(const std::string& text, std::span<const std::byte> data) {
  try {
    const Header header = parse_header(text);
    ENSURE(checkpoint, header.is_object(), "its header must be a JSON object");
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") {
        metadata_ = entry.get<std::map<std::string, std::string>>();
      } else {
        tensors_.push_back(in_context("tensor '" + printable(name) + "'",
                                      [&] { return parse_tensor(name, entry, data); }));
      }
    }
  } catch (const Header::exception& error) {
    throw Error(ErrorKind::checkpoint,
                fmt::format("cannot parse its header: {}", printable(error.what())));
  }
  check_layout(tensors_, data);
}

}  // namespace trainctl::safetensors
