#include "base/enums.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/numbers.hpp"
#include "data/core/registry.hpp"
#include "data/formats/mapped_file.hpp"
#include "data/formats/npy.hpp"
#include "data/text/tokenize.hpp"
#include "spec/options/dataset.hpp"

namespace trainctl::data {
namespace {

using spec::dataset::Tokens;

class TokenDataset final : public Dataset {
 public:
  explicit TokenDataset(const Tokens& options)
      : options_(options),
        file_(options.path),
        item_bytes_(options.dtype == spec::dataset::TokenType::uint16 ? 2 : 4),
        stride_(options.stride.value_or(options.sequence_length)),
        layout_{{"tokens", Dtype::i64, {options.sequence_length}},
                {"targets", Dtype::i64, {options.sequence_length}}} {
    const auto size = file_.bytes().size();
    const auto header = static_cast<std::size_t>(options.header_bytes);
    check_magic();
    ENSURE(data, size >= header,
           "{} ends at byte {}, but its header must have {} bytes ('header_bytes')", file_.name(),
           size, header);
    ENSURE(data, (size - header) % item_bytes_ == 0,
           "{} ends at byte {}, in the middle of a token of {} bytes\nhint: correct 'dtype' or "
           "'header_bytes'",
           file_.name(), size, item_bytes_);
    stream_ = file_.bytes().subspan(header);
    const auto tokens = static_cast<std::int64_t>(stream_.size() / item_bytes_);
    if (header == 0) follow_record(tokens);
    ENSURE(data, tokens > options.sequence_length,
           "{} ends at byte {} after {} token{}, but a sample needs {} ('sequence_length' + "
           "1)\nhint: reduce 'sequence_length'",
           file_.name(), size, tokens, plural(tokens), options.sequence_length + 1);
    samples_ = (tokens - options.sequence_length - 1) / stride_ + 1;
  }

  [[nodiscard]] Facts facts() const { return {samples_, classes(), layout_}; }
  [[nodiscard]] std::int64_t size() const override { return samples_; }
  [[nodiscard]] const Layout& layout() const override { return layout_; }
  [[nodiscard]] std::int64_t classes() const override { return options_.vocab_size.value_or(0); }

  [[nodiscard]] Footprint footprint() const override { return {0, file_.bytes().size()}; }

  void fill(std::span<const std::int64_t> indices, Rows rows) const override {
    for (std::size_t i = 0; i < indices.size(); ++i) {
      ASSERT(indices[i] >= 0 && indices[i] < samples_);
      item_bytes_ == 2 ? window<std::uint16_t>(indices[i], i, rows)
                       : window<std::uint32_t>(indices[i], i, rows);
    }
  }

  [[nodiscard]] std::string fingerprint() const override {
    Hasher hasher;
    hasher.add(content_digest(stream_));
    for (const std::int64_t value :
         {static_cast<std::int64_t>(item_bytes_), options_.sequence_length, stride_}) {
      hasher.add(static_cast<std::uint64_t>(value));
    }
    return hasher.hex();
  }

 private:
  /// Rejects a .npy file, whose header would otherwise be read as tokens.
  void check_magic() const {
    constexpr std::string_view kNumpy = "\x93NUMPY";
    const auto bytes = file_.bytes();
    const std::string_view begin(reinterpret_cast<const char*>(bytes.data()),
                                 std::min(bytes.size(), kNumpy.size()));
    if (options_.header_bytes != 0 || begin != kNumpy) return;
    const NpyHeader header = parse_npy_header(bytes, bytes.size(), file_.name());
    throw Error(
        ErrorKind::data,
        fmt::format("{} is a .npy file of type {} that begins with a header instead of "
                    "tokens\nhint: set 'header_bytes: {}', and 'dtype' to the type of the file, "
                    "uint16 (u2) or uint32 (u4)",
                    file_.name(), header.type(), header.data_at));
  }

  /// Checks the options against the record that `data tokenize` has written, and takes the size of
  /// the vocabulary from it.
  void follow_record(std::int64_t tokens) {
    const std::optional<TokenRecord> record = read_token_record(options_.path);
    if (!record) return;
    ENSURE(config, record->dtype == options_.dtype,
           "{} has tokens of type {}, as its record says, but 'dtype' is {}\nhint: set 'dtype: {}'",
           file_.name(), enum_name(record->dtype), enum_name(options_.dtype),
           enum_name(record->dtype));
    ENSURE(data, record->tokens == tokens,
           "{} has {} tokens, but its record says {}: the file was cut off or replaced\nhint: run "
           "trainctl data tokenize again, or remove {}.json",
           file_.name(), tokens, record->tokens, file_.name());
    ENSURE(config, options_.vocab_size.value_or(record->vocab_size) >= record->vocab_size,
           "'vocab_size' is {}, but the tokenizer of {} has a vocabulary of {}\nhint: remove "
           "'vocab_size'",
           *options_.vocab_size, file_.name(), record->vocab_size);
    if (!options_.vocab_size) options_.vocab_size = record->vocab_size;
  }

  template <class Item>
  void window(std::int64_t index, std::size_t row, Rows rows) const {
    const auto length = static_cast<std::size_t>(options_.sequence_length);
    const std::byte* from =
        stream_.data() + static_cast<std::size_t>(index * stride_) * sizeof(Item);
    for (std::size_t field = 0; field < 2; ++field) {
      if (rows[field].empty()) continue;
      std::byte* out = rows[field].data() + row * length * sizeof(std::int64_t);
      std::int64_t highest = 0;
      for (std::size_t i = 0; i < length; ++i) {
        Item item{};
        std::memcpy(&item, from + (i + field) * sizeof item, sizeof item);
        const auto token = static_cast<std::int64_t>(item);
        highest = std::max(highest, token);
        std::memcpy(out + i * sizeof token, &token, sizeof token);
      }
      const auto at = from - file_.bytes().data();
      ENSURE(data, !options_.vocab_size || highest < *options_.vocab_size,
             "{} has token {} in sample {} (between bytes {} and {}), but tokens must be less than "
             "'vocab_size' ({})",
             file_.name(), highest, index, at,
             at + static_cast<std::ptrdiff_t>((length + 1) * sizeof(Item)), *options_.vocab_size);
    }
  }

  Tokens options_;
  MappedFile file_;
  std::size_t item_bytes_;
  std::int64_t stride_;
  Layout layout_;
  std::span<const std::byte> stream_;
  std::int64_t samples_ = 0;
};

}  // namespace

void register_dataset_tokens(Catalog& catalog) {
  catalog.datasets["tokens"] = maker<TokenDataset, Tokens>();
  catalog.facts["tokens"] = [](const config::Stage& stage) {
    return TokenDataset(stage.as<Tokens>()).facts();
  };
}

}  // namespace trainctl::data
