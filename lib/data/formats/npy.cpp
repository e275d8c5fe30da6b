#include "data/formats/npy.hpp"

#include "base/numbers.hpp"
#include "data/formats/labels.hpp"

#include <set>

namespace trainctl::data {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::size_t kMostHeader = 1 << 16;  // numpy itself rejects more than 10,000

/// Parses the text of the header, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }".
class DictParser {
 public:
  DictParser(std::string_view text, std::size_t at, const std::string& name)
      : text_(text), at_(at), name_(name) {}

  void parse(NpyHeader& header) {
    expect('{');
    std::set<std::string_view> keys;
    while (!accept('}')) {
      const std::string_view key = string();
      expect(':');
      if (!keys.insert(key).second) fail();
      if (key == "descr")
        set_type(string(), header);
      else if (key == "fortran_order")
        set_order(word());
      else if (key == "shape")
        set_shape(header);
      else
        fail();
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (used_ != text_.size() || keys.size() != 3) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw Error(ErrorKind::data,
                fmt::format("{} has a .npy header that is invalid at byte {}", name_, at_ + used_));
  }
  void skip_blanks() { used_ = std::min(text_.find_first_not_of(" \n", used_), text_.size()); }
  bool accept(char c) {
    skip_blanks();
    if (used_ == text_.size() || text_[used_] != c) return false;
    return ++used_, true;
  }
  void expect(char c) {
    if (!accept(c)) fail();
  }
  std::string_view string() {
    skip_blanks();
    if (used_ == text_.size() || (text_[used_] != '\'' && text_[used_] != '"')) {
      ENSURE(
          data, used_ == text_.size() || text_[used_] != '[',
          "{} is a structured array with named columns\nhint: save each column as a separate array",
          name_);
      fail();
    }
    const char quote = text_[used_++];
    const std::size_t end = text_.find(quote, used_);
    if (end == std::string_view::npos) fail();
    const std::string_view found = text_.substr(used_, end - used_);
    used_ = end + 1;
    return found;
  }
  std::string_view word() {
    skip_blanks();
    const std::size_t begin = used_;
    used_ = std::min(text_.find_first_of(",)} ", used_), text_.size());
    return text_.substr(begin, used_ - begin);
  }

  void set_type(std::string_view descr, NpyHeader& header) const {
    const bool known = descr.size() == 3 && std::string_view("<|=").find(descr[0]) != descr.npos;
    ENSURE(data, !descr.starts_with('>'),
           "{} contains big-endian numbers ({})\nhint: save the array with .astype('{}')", name_,
           printable(descr), printable("<" + std::string(descr.substr(1))));
    ENSURE(data, descr.find('O') == std::string_view::npos,
           "{} contains Python objects, which are never unpickled\nhint: save an array of numbers",
           name_);
    constexpr std::string_view kTypes = "b1 i1 i2 i4 i8 u1 u2 u4 u8 f2 f4 f8";
    ENSURE(data, known && kTypes.find(descr.substr(1)) != descr.npos && descr[2] != ' ',
           "{} has items of type '{}': they must be bool, integers or floats of at most 64 bits",
           name_, printable(descr));
    header.kind = descr[1];
    header.item_bytes = static_cast<std::size_t>(descr[2] - '0');
  }

  void set_order(std::string_view text) const {
    ENSURE(data, text != "True",
           "{} is an array in Fortran order\nhint: save numpy.ascontiguousarray(array)", name_);
    if (text != "False") fail();
  }

  void set_shape(NpyHeader& header) {
    expect('(');
    while (!accept(')')) {
      std::int64_t extent = 0;
      const std::string_view text = word();
      ENSURE(data, parse_index(text, extent),
             "{} has '{}' in its shape (byte {}): a dimension must be 0 to 2147483647", name_,
             printable(text), at_ + used_ - text.size());
      header.shape.push_back(extent);
      ENSURE(data, header.shape.size() <= 8, "{} has more than 8 dimensions", name_);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
  }

  std::string_view text_;
  std::size_t at_;
  const std::string& name_;
  std::size_t used_ = 0;
};

void expect_length(const NpyHeader& header, std::uint64_t file_bytes, const std::string& name) {
  std::uint64_t bytes = header.item_bytes;
  ENSURE(data, !header.shape.empty() && header.shape[0] > 0, "{} has no rows", name);
  for (const std::int64_t extent : header.shape) {
    ENSURE(data, extent > 0, "{} has a dimension of size 0", name);
    const auto factor = static_cast<std::uint64_t>(extent);
    // The product stops growing above the file size, so it cannot overflow.
    if (bytes <= file_bytes) bytes *= factor;
  }
  ENSURE(data, header.data_at + bytes == file_bytes || bytes > file_bytes,
         "{} ends at byte {}, but must end at byte {} according to its header", name, file_bytes,
         header.data_at + bytes);
  ENSURE(data, bytes <= file_bytes,
         "{} ends at byte {}, but its header describes an array with more data", name, file_bytes);
}

template <class To, class From, class Convert>
std::vector<std::byte> convert(std::span<const std::byte> data, Convert&& one) {
  const std::size_t count = data.size() / sizeof(From);
  std::vector<std::byte> out(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    From from{};
    std::memcpy(&from, data.data() + i * sizeof from, sizeof from);
    const To to = one(from, i);
    std::memcpy(out.data() + i * sizeof to, &to, sizeof to);
  }
  return out;
}

template <class To, class Convert>
std::vector<std::byte> convert_whole(const NpyHeader& header, std::span<const std::byte> data,
                                     Convert&& one) {
  const bool is_signed = header.kind == 'i';
  switch (header.item_bytes) {
    case 1:
      return is_signed ? convert<To, std::int8_t>(data, one) : convert<To, std::uint8_t>(data, one);
    case 2:
      return is_signed ? convert<To, std::int16_t>(data, one)
                       : convert<To, std::uint16_t>(data, one);
    case 4:
      return is_signed ? convert<To, std::int32_t>(data, one)
                       : convert<To, std::uint32_t>(data, one);
    default:
      return is_signed ? convert<To, std::int64_t>(data, one)
                       : convert<To, std::uint64_t>(data, one);
  }
}

}  // namespace

NpyHeader parse_npy_header(std::span<const std::byte> front, std::uint64_t file_bytes,
                           const std::string& name) {
  const std::string_view text(reinterpret_cast<const char*>(front.data()), front.size());
  ENSURE(data, text.size() >= kNpyMagic.size(), "{} has {} byte{}, too few for a .npy file", name,
         text.size(), plural(text.size()));
  ENSURE(data, text.starts_with(kNpyMagic), "{} must begin with \\x93NUMPY, as a .npy file does",
         name);
  ENSURE(data, text.size() >= 10, "{} ends at byte {}, within its header", name, text.size());
  const int version = text[6];
  ENSURE(data, version >= 1 && version <= 3 && text[7] == 0,
         "{} has version {} of the .npy format (byte 6): it must be 1 to 3", name, version);
  std::size_t length = 0;
  std::memcpy(&length, text.data() + 8,
              version == 1 ? 2 : std::min<std::size_t>(4, text.size() - 8));
  NpyHeader header;
  header.data_at = (version == 1 ? 10 : 12) + length;
  ENSURE(data, length <= kMostHeader,
         "{} has a header of {} bytes (byte 8): it must have at most {}", name, length,
         kMostHeader);
  ENSURE(data, header.data_at <= text.size(), "{} ends at byte {}, within its header", name,
         text.size());
  const std::size_t begin = header.data_at - length;
  DictParser(text.substr(begin, length), begin, name).parse(header);
  expect_length(header, file_bytes, name);
  return header;
}

NpyArray::NpyArray(const std::filesystem::path& path)
    : file_(std::make_shared<const MappedFile>(path)),
      header_(parse_npy_header(file_->bytes(), file_->bytes().size(), file_->name())) {}

std::vector<std::byte> NpyArray::as_f32() const {
  const std::size_t items = data().size() / header_.item_bytes;
  const std::size_t of_row = items / static_cast<std::size_t>(header_.shape[0]);
  const auto finite = [&](double value, std::size_t i) {
    const auto narrow = static_cast<float>(value);
    ENSURE(data, std::isfinite(narrow),
           "{} contains {} in row {}, at byte {}: numbers must be finite as 32-bit floats", name(),
           value, i / of_row, header_.data_at + i * header_.item_bytes);
    return narrow;
  };
  if (header_.kind != 'f') {
    return convert_whole<float>(header_, data(),
                                [](auto value, std::size_t) { return static_cast<float>(value); });
  }
  if (header_.item_bytes == 8) return convert<float, double>(data(), finite);
  if (header_.item_bytes == 4) return convert<float, float>(data(), finite);
  return convert<float, std::uint16_t>(
      data(), [&](std::uint16_t half, std::size_t i) { return finite(half_to_float(half), i); });
}

std::vector<std::byte> NpyArray::as_i64() const {
  ENSURE(data, header_.kind != 'f', "{} must contain integers, got type {}", name(),
         header_.type());
  return convert_whole<std::int64_t>(header_, data(), [&](auto value, std::size_t i) {
    ENSURE(data, std::in_range<std::int64_t>(value),
           "{} contains {} at byte {}, which does not fit into a signed 64-bit integer", name(),
           value, header_.data_at + i * header_.item_bytes);
    return static_cast<std::int64_t>(value);
  });
}

}  // namespace trainctl::data
