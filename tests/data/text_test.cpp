#include "base/files.hpp"
#include "base/json.hpp"
#include "data/loader/measurements.hpp"
#include "data/sources.hpp"
#include "data/text/tokenize.hpp"
#include "spec/options/dataset.hpp"
#include "support/catch.hpp"
#include "support/golden_folder.hpp"

using namespace trainctl;
using namespace trainctl::data;
using namespace trainctl::data::testing;
using spec::dataset::TokenizerType;

namespace {

using Numbers = std::vector<std::int64_t>;

const std::filesystem::path kGolden = golden_folder() / "data/text";

void need_sentencepiece() {
  if (!has_sentencepiece()) skip("this build does not read SentencePiece models");
}

/// More than a megabyte of lines of different lengths, so that they are more than one piece.
std::string long_text() {
  std::string text;
  for (int i = 0; text.size() < 1'300'000; ++i)
    text += "line " + std::to_string(i) + std::string(static_cast<std::size_t>(i % 97), 'x') + "\n";
  return text;
}

TokenizeOptions options_of(const TempFolder& folder, const std::string& text) {
  put_text(folder / "a.txt", text);
  return {.inputs = {folder / "a.txt"}, .out = folder / "train.bin"};
}

TokenizeReport tokenized(const TokenizeOptions& options) {
  return tokenize(options, [](std::int64_t, std::int64_t) {});
}

std::vector<std::uint16_t> tokens_in(const std::filesystem::path& path) {
  const std::string bytes = get_text(path);
  std::vector<std::uint16_t> ids(bytes.size() / 2);
  std::memcpy(ids.data(), bytes.data(), bytes.size());
  return ids;
}

std::string as_text(const std::vector<std::uint16_t>& ids) { return {ids.begin(), ids.end()}; }

std::vector<std::uint32_t> encoded(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::uint32_t> ids;
  tokenizer.encode(text, ids);
  return ids;
}

std::string failure(const TokenizeOptions& options) {
  return failure_of([&] { (void)tokenized(options); });
}

spec::dataset::Text table(const TempFolder& folder, const std::string& rows) {
  put_text(folder / "t.csv", rows);
  spec::dataset::Text options;
  options.path = folder / "t.csv";
  options.max_length = 4;
  return options;
}

}  // namespace

TEST_CASE("tokenize: bytes are the tokens, and the record says so") {
  const TempFolder folder;
  auto options = options_of(folder, "a\xff\n");
  put_text(folder / "b.txt", "cd");
  options.inputs.push_back(folder / "b.txt");
  const TokenizeReport report = tokenized(options);
  CHECK(tokens_in(options.out) == std::vector<std::uint16_t>{97, 255, 10, 99, 100});
  CHECK(report.bytes == 5);
  const auto record = read_token_record(options.out);
  REQUIRE(record);
  CHECK(record->tokenizer == "bytes");
  CHECK(record->vocab_size == 256);
  CHECK(record->tokens == 5);
  CHECK(record->model.empty());
  CHECK_FALSE(read_token_record(folder / "b.txt"));
}

TEST_CASE("tokenize: files are the same for any number of workers, and val continues train") {
  const TempFolder folder;
  const std::string text = long_text();
  auto options = options_of(folder, text);
  options.val_out = folder / "val.bin";
  options.val_fraction = 0.3;
  const auto type = GENERATE(TokenizerType::bytes, TokenizerType::sentencepiece);
  if (type == TokenizerType::sentencepiece) {
    need_sentencepiece();
    options.tokenizer = type;
    options.model = kGolden / "bpe.model";
  }
  const TokenizeReport report = tokenized(options);
  const std::string train = get_text(options.out);
  const std::string val = get_text(*options.val_out);
  options.workers = 3;
  (void)tokenized(options);
  CHECK(get_text(options.out) == train);
  CHECK(get_text(*options.val_out) == val);
  CHECK(report.train.tokens == std::ssize(train) / 2);
  if (type == TokenizerType::bytes) {
    const std::string both = as_text(tokens_in(options.out)) + as_text(tokens_in(*options.val_out));
    CHECK(both == text);
    CHECK(report.val->tokens == std::ssize(text) * 3 / 10);
  } else {
    options.val_out.reset();
    (void)tokenized(options);
    CHECK(get_text(options.out) == train + val);
    const auto encoder = make_tokenizer(type, options.model);
    std::vector<std::uint32_t> ids;
    for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
      encoder->encode(std::string_view(text).substr(at, text.find('\n', at) + 1 - at), ids);
    CHECK(tokens_in(options.out) == std::vector<std::uint16_t>(ids.begin(), ids.end()));
  }
}

TEST_CASE("tokenize: inputs that cannot be read leave no file") {
  const TempFolder folder;
  auto options = options_of(folder, "");
  CHECK_THAT(failure(options), StartsWith("9: ") && EndsWith("a.txt is empty"));
  options.inputs = {folder / "none.txt"};
  CHECK_THAT(failure(options), StartsWith("9: ") && Contains("none.txt"));
  options.model = kGolden / "bpe.model";
  CHECK_THAT(failure(options), StartsWith("2: the tokenizer 'bytes' has no model"));
  options.model.reset();
  options.tokenizer = TokenizerType::sentencepiece;
  CHECK_THAT(failure(options), StartsWith("2: the tokenizer 'sentencepiece' needs a model"));
  options.model = folder / "none.model";
  CHECK_THAT(failure(options), StartsWith("9: ") && Contains("none.model"));
  CHECK_FALSE(std::filesystem::exists(options.out));
}

TEST_CASE("tokenize: text for SentencePiece must be UTF-8, and its models must be valid") {
  need_sentencepiece();
  const TempFolder folder;
  auto options = options_of(folder, std::string(1'200'000, '\n') + "caf\xe9\n");
  (void)tokenized(options);
  const std::string before = get_text(options.out);
  options.tokenizer = TokenizerType::sentencepiece;
  options.model = kGolden / "unigram.model";
  CHECK_THAT(failure(options),
             StartsWith("9: ") && Contains("a.txt: byte 1200003 is not valid UTF-8: byte 0xe9"));
  CHECK(get_text(options.out) == before);
  CHECK(read_token_record(options.out)->tokenizer == "bytes");
  put_text(folder / "bad.model", get_text(*options.model).substr(0, 100));
  options.model = folder / "bad.model";
  CHECK_THAT(failure(options),
             StartsWith("9: ") && Contains("bad.model is not a valid SentencePiece model"));
}

TEST_CASE("tokenize: the end piece ends each input") {
  need_sentencepiece();
  const TempFolder folder;
  auto options = options_of(folder, "the cat\n");
  put_text(folder / "b.txt", "a dog");
  options.inputs.push_back(folder / "b.txt");
  options.append_end = true;
  CHECK_THAT(failure(options), StartsWith("2: the tokenizer has no piece that ends a text"));
  options.tokenizer = TokenizerType::sentencepiece;
  options.model = kGolden / "unigram.model";
  CHECK(tokenized(options).train.end_id == 1);
  const auto ids = tokens_in(options.out);
  CHECK(ids.back() == 1);
  CHECK(std::ranges::count(ids, 1) == 2);
  CHECK(read_token_record(options.out)->model_sha256.size() == 64);
}

TEST_CASE("sentencepiece: ids are those of the Python package") {
  need_sentencepiece();
  const Json golden = Json::parse(get_text(kGolden / "encodings.json"));
  for (const auto& [name, expected] : golden["models"].items()) {
    const auto tokenizer =
        make_tokenizer(TokenizerType::sentencepiece, kGolden / (name + ".model"));
    CHECK(tokenizer->vocab_size() == expected["vocab_size"].get<std::int64_t>());
    CHECK(tokenizer->end_id() == expected["end_id"].get<std::uint32_t>());
    CHECK(tokenizer->padding_id().has_value() == (expected["padding_id"].get<int>() >= 0));
    for (std::size_t i = 0; i < golden["texts"].size(); ++i) {
      INFO(name << ": " << golden["texts"][i]);
      CHECK(encoded(*tokenizer, golden["texts"][i].get<std::string>()) ==
            expected["ids"][i].get<std::vector<std::uint32_t>>());
    }
  }
}

TEST_CASE("train_tokenizer: equal texts give equal models, and impossible sizes are an error") {
  need_sentencepiece();
  const TempFolder folder;
  std::string text;
  for (int i = 0; i < 2'000; ++i)
    text +=
        "the cat saw " + std::to_string(i * 7919 % 1000) + " birds " + char('a' + i % 26) + "\n";
  auto options = options_of(folder, text + std::string(5'000, 'z'));
  options.tokenizer = TokenizerType::sentencepiece;
  for (const ModelType type : {ModelType::unigram, ModelType::bpe}) {
    options.model = folder / "m.model";
    train_tokenizer(options, {.vocab_size = 320, .type = type});
    const std::string model = get_text(*options.model);
    train_tokenizer(options, {.vocab_size = 320, .type = type});
    CHECK(get_text(*options.model) == model);
    const auto tokenizer = make_tokenizer(options.tokenizer, options.model);
    CHECK(tokenizer->vocab_size() == 320);
    CHECK(tokenizer->padding_id() == 0U);
    CHECK(tokenizer->end_id() == 1U);
    CHECK(encoded(*tokenizer, "\xe6\xbc\xa2").size() == 3);  // three bytes without a piece
  }
  CHECK_THAT(failure_of([&] { train_tokenizer(options, {.vocab_size = 100'000}); }),
             StartsWith("2: SentencePiece cannot train a model: Vocabulary size too high"));
}

TEST_CASE("tokens: the record gives the vocabulary, and a file that differs from it is an error") {
  const TempFolder folder;
  auto written = options_of(folder, "abcdef");
  (void)tokenized(written);
  spec::dataset::Tokens options;
  options.path = written.out;
  options.sequence_length = 2;
  CHECK(build("tokens", options)->classes() == 256);
  const auto failure = [&] { return failure_of([&] { (void)facts("tokens", options); }); };
  options.vocab_size = 100;
  CHECK_THAT(failure(), StartsWith("2: 'vocab_size' is 100, but the tokenizer of"));
  options.vocab_size = 300;
  CHECK(build("tokens", options)->classes() == 300);
  options.dtype = spec::dataset::TokenType::uint32;
  CHECK_THAT(failure(), StartsWith("2: ") && Contains("set 'dtype: uint16'"));
  options.dtype = spec::dataset::TokenType::uint16;
  put_text(written.out, get_text(written.out).substr(2));
  CHECK_THAT(failure(), StartsWith("9: ") && Contains("has 5 tokens, but its record says 6"));
  put_text(written.out.string() + ".json", "{}");
  CHECK_THAT(failure(), StartsWith("9: ") && Contains("train.bin.json is not a record of"));
}

TEST_CASE("text: rows of a table become tokens of one length with padding") {
  const TempFolder folder;
  auto options = table(folder, "label,id,text\nyes,1,ab\nno,2,\"a, \"\"b\"\" c\"\nyes,3,\n");
  const auto dataset = build("text", options);
  CHECK(dataset->layout() ==
        Layout{{"tokens", Dtype::i64, {4}, 256, /*padding_id=*/0}, {"label", Dtype::i64, {}}});
  CHECK(dataset->size() == 3);
  CHECK(dataset->class_names() == std::vector<std::string>{"no", "yes"});
  CHECK(values<std::int64_t>(*dataset, 0, 0) == Numbers{'a', 'b', 0, 0});
  CHECK(values<std::int64_t>(*dataset, 1, 0) == Numbers{'a', ',', ' ', '"'});
  CHECK(values<std::int64_t>(*dataset, 2, 0) == Numbers{0, 0, 0, 0});
  CHECK(values<std::int64_t>(*dataset, 1, 1) == Numbers{0});
  const Facts known = facts("text", options);
  CHECK(known.samples == 3);
  CHECK(known.classes == 2);
  CHECK(known.layout == dataset->layout());
  options.padding_id = 7;
  CHECK(values<std::int64_t>(*build("text", options), 0, 0) == Numbers{'a', 'b', 7, 7});
  CHECK(build("text", options)->layout()[0].padding_id == 7);
  CHECK(build("text", options)->fingerprint() != dataset->fingerprint());
  options.classes = {"yes", "no", "perhaps"};
  CHECK(build("text", options)->classes() == 3);
}

TEST_CASE("text: options that do not fit the table are an error") {
  const TempFolder folder;
  auto options = table(folder, "label,text\nyes,ab\n");
  const auto failure = [&] { return failure_of([&] { (void)build("text", options); }); };
  options.padding_id = 256;
  CHECK_THAT(failure(), StartsWith("2: 'padding_id' is 256"));
  options.padding_id.reset();
  options.text = "review";
  CHECK_THAT(failure(), StartsWith("9: ") && Contains("t.csv has no column 'review'"));
  options.text = "text";
  options.classes = {"no"};
  CHECK_THAT(failure(), Contains("t.csv:2:1: the label 'yes' is not one of the 1 classes"));
  put_text(options.path, "label,text\n");
  CHECK_THAT(failure(), EndsWith("t.csv has no rows"));
  options.path = folder / "none.csv";
  CHECK_THAT(failure(), StartsWith("9: ") && Contains("none.csv"));
}

TEST_CASE("text: folders are classes, and files that are no text are left out") {
  const TempFolder folder;
  put_text(folder / "b/2.txt", "xyzuvw");
  put_text(folder / "b/1.txt", "p");
  put_text(folder / "a/deep/3.TXT", "q");
  put_text(folder / "a/readme.md", "no");
  spec::dataset::Text options;
  options.path = folder.path();
  options.max_length = 3;
  const auto dataset = build("text", options);
  CHECK(dataset->class_names() == std::vector<std::string>{"a", "b"});
  CHECK(values<std::int64_t>(*dataset, 0, 0) == Numbers{'q', 0, 0});
  CHECK(values<std::int64_t>(*dataset, 1, 0) == Numbers{'p', 0, 0});
  CHECK(values<std::int64_t>(*dataset, 2, 0) == Numbers{'x', 'y', 'z'});
  CHECK(facts("text", options).samples == 3);
  const auto failure = [&] { return failure_of([&] { (void)build("text", options); }); };
  options.classes = {"a", "b"};
  CHECK_THAT(failure(), StartsWith("2: 'classes' are the names of the folders in"));
  options.classes.clear();
  std::filesystem::create_directory(folder / "c");
  CHECK_THAT(failure(), StartsWith("9: ") && Contains("c contains no texts (.txt)"));
}

TEST_CASE("text: a SentencePiece model gives its pieces and its padding") {
  need_sentencepiece();
  const TempFolder folder;
  auto options = table(folder, "label,text\nyes,the\nno,caf\xe9\n");
  options.tokenizer = TokenizerType::sentencepiece;
  options.model = kGolden / "plain.model";
  CHECK_THAT(failure_of([&] { (void)build("text", options); }),
             StartsWith("9: ") && Contains("t.csv:3:4: byte 3 of the text is not valid UTF-8"));
  put_text(options.path, "label,text\nyes,the\nno,a\n");
  options.max_length = 8;
  const auto dataset = build("text", options);
  std::vector<std::uint32_t> ids =
      encoded(*make_tokenizer(options.tokenizer, options.model), "the");
  ids.resize(8);  // this model has no padding piece, so the padding is 0
  CHECK(values<std::int64_t>(*dataset, 0, 0) == Numbers(ids.begin(), ids.end()));
  CHECK(dataset->layout()[0].vocab_size == 45);
}

TEST_CASE("text: batches are the same for any workers and ranks") {
  const TempFolder folder;
  std::string rows = "label,text\n";
  for (int i = 0; i < 150; ++i)
    rows += std::to_string(i % 3) + "," + std::string(static_cast<std::size_t>(i % 9), 'a') + "\n";
  auto options = table(folder, rows);
  const Pipeline pipeline{.dataset = build("text", options)};
  LoaderOptions loader;
  loader.batch_size = 12;
  loader.seed = 3;
  const EpochDigests expected = digest_epochs(pipeline, loader, 2);
  for (const int workers : {0, 3}) {
    for (const int ranks : {1, 2, 3}) {
      loader.num_workers = workers;
      loader.batch_size = 12 / ranks;
      loader.shard.world_size = ranks;
      CHECK(digest_epochs(pipeline, loader, 2).digest == expected.digest);
    }
  }
}
