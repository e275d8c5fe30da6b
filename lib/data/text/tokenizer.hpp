#pragma once

#include "spec/options/dataset.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainctl::data {

/// Turns text into token ids, which are less than vocab_size(). Called from several threads at
/// once.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  [[nodiscard]] virtual std::int64_t vocab_size() const = 0;
  /// Appends the ids of the text, which must be valid UTF-8 unless reads_bytes().
  virtual void encode(std::string_view text, std::vector<std::uint32_t>& ids) const = 0;
  /// Returns whether each byte is a token, so that a text may be cut anywhere.
  [[nodiscard]] virtual bool reads_bytes() const { return false; }
  /// Returns the id of the piece that ends a text, or nothing if the vocabulary has none.
  [[nodiscard]] virtual std::optional<std::uint32_t> end_id() const { return {}; }
  /// Returns the id of the piece that fills up short texts, or nothing as above.
  [[nodiscard]] virtual std::optional<std::uint32_t> padding_id() const { return {}; }
};

/// Makes a tokenizer; only `sentencepiece` has and needs a model, which may be remote. Throws
/// Error(config), or Error(data) when the model cannot be read.
std::unique_ptr<Tokenizer> make_tokenizer(spec::dataset::TokenizerType type,
                                          const std::optional<std::filesystem::path>& model);

/// Throws Error(data) with `place(byte)` for the first byte that is not valid UTF-8.
void check_utf8(std::string_view text, const std::function<std::string(std::uint64_t byte)>& place);

enum class ModelType { unigram, bpe };
constexpr std::array<const char*, 2> enum_names(ModelType) { return {"unigram", "bpe"}; }

struct TrainingOptions {
  std::int64_t vocab_size = 8000;
  ModelType type = ModelType::unigram;
};

/// Trains a SentencePiece model and returns the content of its file. It restores every text exactly
/// (bytes encode characters without a piece, nothing is normalized), its first pieces are
/// padding, the end of a text and the unknown piece, and equal inputs give equal models. `next`
/// returns the next line, or nothing at the end. Throws Error(config).
std::string train_sentencepiece(const TrainingOptions& options,
                                const std::function<std::optional<std::string>()>& next);

// The entry points of libtrainctl_sentencepiece.so, which builds with SentencePiece contain.
constexpr const char* kSentencePieceLibrary = "libtrainctl_sentencepiece.so";
constexpr const char* kSentencePieceOpenSymbol = "trainctl_sentencepiece_open_1";
constexpr const char* kSentencePieceTrainSymbol = "trainctl_sentencepiece_train_1";
constexpr const char* kSentencePieceVersionSymbol = "trainctl_sentencepiece_version";
/// Reads the content of a model file; `name` is its name in errors. Throws Error(data).
using SentencePieceOpen = Tokenizer* (*)(std::string_view model, const char* name);
using SentencePieceTrain = void (*)(const TrainingOptions& options,
                                    const std::function<std::optional<std::string>()>& next,
                                    std::string& model);

/// Returns whether this build has SentencePiece.
bool has_sentencepiece();

}  // namespace trainctl::data
