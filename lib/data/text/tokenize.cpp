#include "data/text/tokenize.hpp"

#include "base/enums.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "base/url.hpp"
#include "data/core/parallel.hpp"
#include "data/formats/archive.hpp"
#include "data/formats/file_reader.hpp"

#include <cmath>

namespace trainctl::data {
namespace {

using spec::dataset::TokenType;

constexpr const char* kSchema = "trainctl.tokens/2";
constexpr std::size_t kPieceBytes = std::size_t{1} << 20;
constexpr std::size_t kLongestLine = std::size_t{64} << 20;
constexpr std::uint64_t kMostRecord = std::uint64_t{1} << 20;

fs::path record_path(fs::path tokens) { return tokens += ".json"; }

std::string dump(const TokenRecord& record) {
  Json json{{"schema", kSchema},
            {"tokenizer", record.tokenizer},
            {"vocab_size", record.vocab_size},
            {"dtype", enum_name(record.dtype)},
            {"tokens", record.tokens}};
  if (record.end_id) json["end_id"] = *record.end_id;
  if (!record.model.empty()) {
    json["model"] = record.model;
    json["model_sha256"] = record.model_sha256;
  }
  return to_pretty(json) + "\n";
}

TokenRecord parse_record(const Json& json) {
  TokenRecord record;
  json.at("tokenizer").get_to(record.tokenizer);
  json.at("vocab_size").get_to(record.vocab_size);
  json.at("tokens").get_to(record.tokens);
  record.dtype = enum_called<TokenType>(json.at("dtype").get<std::string>()).value();
  if (json.contains("end_id")) record.end_id = json["end_id"].get<std::uint32_t>();
  record.model = json.value("model", "");
  record.model_sha256 = json.value("model_sha256", "");
  return record;
}

/// Writes one of the files of tokens.
class TokenWriter {
 public:
  TokenWriter(int fd, const fs::path& path, TokenType type)
      : fd_(fd), label_(path.string()), type_(type) {}

  void write(const std::vector<std::uint32_t>& ids) {
    tokens_ += std::ssize(ids);
    if (type_ == TokenType::uint32) return put(ids);
    const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
    put(narrow);
  }
  [[nodiscard]] std::int64_t tokens() const { return tokens_; }

 private:
  template <class Item>
  void put(const std::vector<Item>& items) {
    const auto* bytes = reinterpret_cast<const char*>(items.data());
    write_all(fd_, {bytes, items.size() * sizeof(Item)}, label_);
  }

  int fd_;
  std::string label_;
  TokenType type_;
  std::int64_t tokens_ = 0;
};

/// Encodes the pieces of a reader in several threads and writes the tokens in order.
class Encoding {
 public:
  Encoding(const Tokenizer& tokenizer, const TokenizeOptions& options, PieceReader& reader)
      : tokenizer_(tokenizer), options_(options), reader_(reader) {}

  void run(TokenWriter& train, TokenWriter* val, const TokenizeProgress& progress) {
    constexpr int kAheadOfEach = 4;
    std::vector<Slot> slots(static_cast<std::size_t>(kAheadOfEach * options_.workers));
    std::uint64_t done = 0;
    while (true) {
      std::size_t count = 0;
      while (count < slots.size() && reader_.next(slots[count].piece)) ++count;
      if (count == 0) return;
      const auto end = static_cast<std::int64_t>(count);
      const InOrder range{.end = end, .ahead = end, .workers = options_.workers};
      const auto slot = [&](std::int64_t i) -> Slot& { return slots[static_cast<std::size_t>(i)]; };
      run_in_order(
          range, [&](std::int64_t i) { encode(slot(i)); },
          [&](std::int64_t i) {
            const PieceReader::Piece& piece = slot(i).piece;
            (piece.is_val && val != nullptr ? *val : train).write(slot(i).ids);
            done += piece.text.size();
            progress(static_cast<std::int64_t>(done), static_cast<std::int64_t>(reader_.bytes()));
          });
    }
  }

 private:
  struct Slot {
    PieceReader::Piece piece;
    std::vector<std::uint32_t> ids;
  };

  void encode(Slot& slot) const {
    const std::string_view text = slot.piece.text;
    slot.ids.clear();
    if (!tokenizer_.reads_bytes())
      check_utf8(text, [&](std::uint64_t byte) { return reader_.place(slot.piece, byte); });
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t line_end = tokenizer_.reads_bytes() ? text.npos : text.find('\n', at);
      const std::size_t end = line_end == text.npos ? text.size() : line_end + 1;
      tokenizer_.encode(text.substr(at, end - at), slot.ids);
      at = end;
    }
    if (slot.piece.ends_input && options_.append_end) slot.ids.push_back(*tokenizer_.end_id());
  }

  const Tokenizer& tokenizer_;
  const TokenizeOptions& options_;
  PieceReader& reader_;
};

TokenRecord record_of(const Tokenizer& tokenizer, const TokenizeOptions& options) {
  TokenRecord record{enum_name(options.tokenizer), tokenizer.vocab_size()};
  constexpr std::int64_t kMostOf16Bits = 65'536;
  if (record.vocab_size > kMostOf16Bits) record.dtype = TokenType::uint32;
  if (options.append_end) {
    ENSURE(config, tokenizer.end_id(), "the tokenizer has no piece that ends a text");
    record.end_id = tokenizer.end_id();
  }
  if (options.model) {
    const FileReader file(*options.model);
    std::string content(file.size(), '\0');
    file.read(0, std::as_writable_bytes(std::span(content)));
    record.model = options.model->string();
    record.model_sha256 = to_hex(sha256(content));
  }
  return record;
}

/// Writes the tokens of one part. The record of an older file is removed before the file is
/// replaced, because it must never describe a newer one.
void write_tokens(const fs::path& path, const std::function<void(int fd)>& write) {
  write_atomically(path, [&](int fd) {
    write(fd);
    std::error_code ignored;
    fs::remove(record_path(path), ignored);
  });
}

}  // namespace

std::optional<TokenRecord> read_token_record(const fs::path& tokens) {
  const fs::path path = record_path(tokens);
  if (is_remote(tokens) || !path_exists(path)) return std::nullopt;
  const Json json = parse_json(read_file(path, kMostRecord, ReadFailure::data));
  try {
    if (json.is_object() && json.value("schema", "") == kSchema) return parse_record(json);
  } catch (const std::exception&) {  // reported below
  }
  throw Error(ErrorKind::data,
              fmt::format("{} is not a record of trainctl data tokenize ({})\nhint: remove or "
                          "rename it if it does not belong to {}",
                          shown(path), kSchema, shown(tokens)));
}

std::uint64_t first_val_byte(std::uint64_t bytes, double val_fraction) {
  const double train = static_cast<double>(bytes) * (1 - val_fraction);
  return val_fraction > 0 ? static_cast<std::uint64_t>(std::ceil(train)) : bytes;
}

PieceReader::PieceReader(std::vector<fs::path> inputs, double val_fraction, bool bytes)
    : inputs_(std::move(inputs)), cuts_anywhere_(bytes) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  for (const fs::path& input : inputs_) {
    const std::uint64_t size = open_source(input)->skip(kAll);
    ENSURE(data, size > 0, "{} is empty", shown(input));
    bytes_ += size;
  }
  val_begin_ = first_val_byte(bytes_, val_fraction);
}

PieceReader::~PieceReader() = default;

bool PieceReader::next(Piece& piece) {
  if (input_ == inputs_.size()) return false;
  fill();
  const std::size_t size = cut();
  piece = {input_, offset_, buffer_.substr(0, size), ended_ && size == buffer_.size(),
           position_ >= val_begin_};
  buffer_.erase(0, size);
  offset_ += size;
  position_ += size;
  if (piece.ends_input) {
    ++input_;
    offset_ = 0;
    ended_ = false;
    source_.reset();
  }
  return true;
}

void PieceReader::fill() {
  if (source_ == nullptr) source_ = open_source(inputs_[input_]);
  while (!ended_ && (buffer_.size() < kPieceBytes ||
                     (!cuts_anywhere_ && buffer_.find('\n') == std::string::npos))) {
    ENSURE(data, buffer_.size() < kLongestLine,
           "{} has a line of more than {} from byte {}\nhint: insert line breaks, or use the "
           "tokenizer 'bytes'",
           shown(inputs_[input_]), human_bytes(kLongestLine), offset_);
    const std::size_t before = buffer_.size();
    buffer_.resize(before + kPieceBytes);
    const std::size_t count =
        source_->read(std::as_writable_bytes(std::span(buffer_).subspan(before)));
    buffer_.resize(before + count);
    ended_ = count < kPieceBytes;
  }
}

std::size_t PieceReader::cut() const {
  std::size_t end = buffer_.size();
  if (!ended_ && !cuts_anywhere_) end = buffer_.rfind('\n') + 1;
  if (position_ >= val_begin_ || position_ + end <= val_begin_) return end;
  const std::size_t boundary = val_begin_ - position_;
  if (cuts_anywhere_) return boundary;
  const std::size_t line_end = buffer_.find('\n', boundary - 1);
  return line_end == std::string::npos ? end : std::min(end, line_end + 1);
}

std::string PieceReader::place(const Piece& piece, std::uint64_t byte) const {
  return fmt::format("{}: byte {}", shown(inputs_[piece.input]), piece.offset + byte);
}

TokenizeReport tokenize(const TokenizeOptions& options, const TokenizeProgress& progress) {
  const auto tokenizer = make_tokenizer(options.tokenizer, options.model);
  TokenizeReport report{.train = record_of(*tokenizer, options)};
  PieceReader reader(options.inputs, options.val_out ? options.val_fraction : 0,
                     tokenizer->reads_bytes());
  report.bytes = reader.bytes();
  Encoding encoding(*tokenizer, options, reader);
  const TokenType type = report.train.dtype;
  write_tokens(options.out, [&](int train_fd) {
    TokenWriter train(train_fd, options.out, type);
    if (options.val_out) {
      report.val = report.train;
      write_tokens(*options.val_out, [&](int val_fd) {
        TokenWriter val(val_fd, *options.val_out, type);
        encoding.run(train, &val, progress);
        report.val->tokens = val.tokens();
        ENSURE(data, val.tokens() > 0 && train.tokens() > 0,
               "no line ends where the part for validation would begin\nhint: change "
               "--val-fraction ({})",
               options.val_fraction);
      });
    } else {
      encoding.run(train, nullptr, progress);
    }
    report.train.tokens = train.tokens();
  });
  write_atomically(record_path(options.out), dump(report.train));
  if (report.val) write_atomically(record_path(*options.val_out), dump(*report.val));
  return report;
}

void train_tokenizer(const TokenizeOptions& options, const TrainingOptions& training) {
  constexpr std::uint64_t kMostTraining = std::uint64_t{64} << 20;
  constexpr std::size_t kLongest = 4096;  // SentencePiece skips longer lines
  PieceReader reader(options.inputs, 0, /*bytes=*/false);
  const std::uint64_t step = (reader.bytes() + kMostTraining - 1) / kMostTraining;
  PieceReader::Piece piece;
  std::string_view rest;
  std::uint64_t line = 0;
  const auto next = [&]() -> std::optional<std::string> {
    while (true) {
      while (rest.empty()) {
        if (!reader.next(piece)) return std::nullopt;
        rest = piece.text;
        check_utf8(rest, [&](std::uint64_t byte) { return reader.place(piece, byte); });
      }
      const std::string text(utf8_start(rest.substr(0, rest.find('\n')), kLongest));
      const std::size_t end = text.size();
      rest.remove_prefix(std::min(rest.size(), end + (end < rest.size() && rest[end] == '\n')));
      if (line++ % step == 0 && !text.empty()) return text;
    }
  };
  write_atomically(*options.model, train_sentencepiece(training, next));
}

}  // namespace trainctl::data
