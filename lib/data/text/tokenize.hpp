#pragma once

#include "data/text/tokenizer.hpp"

namespace trainctl::data {

class ByteSource;

/// What a file of tokens contains. Written next to the file as FILE.json, for those who read it.
struct TokenRecord {
  std::string tokenizer;  // a name of spec::dataset::TokenizerType
  std::int64_t vocab_size = 0;
  spec::dataset::TokenType dtype = spec::dataset::TokenType::uint16;
  std::int64_t tokens = 0;
  std::optional<std::uint32_t> end_id = {};  // set if it ends each text
  std::string model = {};                    // path of the model; empty: none
  std::string model_sha256 = {};
};

/// Returns the record of a file of tokens, or nothing when it has none or is remote. Throws
/// Error(data) when the record cannot be read.
std::optional<TokenRecord> read_token_record(const std::filesystem::path& tokens);

/// Reads texts one after another in pieces of about a megabyte. A piece ends after a line or at the
/// end of its text, or anywhere if `bytes` is set, and at the boundary to the validation part.
/// Plain and gzip-compressed files, local or remote, are read. Throws Error(data).
class PieceReader {
 public:
  struct Piece {
    std::size_t input = 0;
    std::uint64_t offset = 0;  // of the first byte in its input
    std::string text;
    bool ends_input = false;
    bool is_val = false;
  };

  /// `val_fraction` is the part of all bytes at the end that is for validation.
  PieceReader(std::vector<std::filesystem::path> inputs, double val_fraction, bool bytes);
  ~PieceReader();
  PieceReader(const PieceReader&) = delete;
  PieceReader& operator=(const PieceReader&) = delete;

  /// Returns false at the end of the last input.
  bool next(Piece& piece);
  /// Returns the size of all inputs.
  [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
  /// Returns the position of a byte of a piece for messages.
  [[nodiscard]] std::string place(const Piece& piece, std::uint64_t byte) const;

 private:
  void fill();
  [[nodiscard]] std::size_t cut() const;

  std::vector<std::filesystem::path> inputs_;
  bool cuts_anywhere_;
  std::uint64_t bytes_ = 0;
  std::uint64_t val_begin_ = 0;
  std::size_t input_ = 0;
  std::unique_ptr<ByteSource> source_;
  std::string buffer_;
  std::uint64_t offset_ = 0;    // of the buffer in its input
  std::uint64_t position_ = 0;  // of the buffer in all inputs
  bool ended_ = false;          // the buffer has the last byte of its input
};

struct TokenizeOptions {
  std::vector<std::filesystem::path> inputs;
  std::filesystem::path out;
  std::optional<std::filesystem::path> val_out;
  double val_fraction = 0.1;
  spec::dataset::TokenizerType tokenizer = spec::dataset::TokenizerType::bytes;
  std::optional<std::filesystem::path> model;
  bool append_end = false;  // the end piece of the model ends each input
  int workers = 1;
};

struct TokenizeReport {
  TokenRecord train;
  std::optional<TokenRecord> val;
  std::uint64_t bytes = 0;
};

using TokenizeProgress = std::function<void(std::int64_t done, std::int64_t total)>;

/// Returns the byte of all inputs at which the part for validation begins, if tokens are bytes.
std::uint64_t first_val_byte(std::uint64_t bytes, double val_fraction);

/// Writes the tokens of the inputs to a file in the format of the data set `tokens`, with its
/// record, and replaces both files if they exist. Each line of a text is encoded separately, with
/// its line break. The files do not depend on the number of workers, and the memory does not depend
/// on the size of the inputs.
TokenizeReport tokenize(const TokenizeOptions& options, const TokenizeProgress& progress);

/// Trains a model on the lines of the inputs and writes it to options.model. Of more than 64 MB,
/// evenly spread lines are read.
void train_tokenizer(const TokenizeOptions& options, const TrainingOptions& training);

}  // namespace trainctl::data
