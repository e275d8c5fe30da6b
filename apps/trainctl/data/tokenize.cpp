#include "data/text/tokenize.hpp"

#include "base/enums.hpp"
#include "base/machine/machine.hpp"
#include "cli/long_task.hpp"
#include "cli/verb.hpp"

namespace trainctl::app {
namespace {

using spec::dataset::TokenizerType;

struct TokenizeArguments {
  std::vector<std::string> inputs;
  std::string out;
  std::string tokenizer = "bytes";
  std::optional<std::string> model;
  bool train = false;
  std::optional<std::int64_t> vocab_size;
  std::optional<std::string> model_type;
  bool append_end = false;
  std::optional<std::string> val_out;
  std::optional<double> val_fraction;
  std::optional<int> workers;
  bool force = false;
};

data::TokenizeOptions options_of(const TokenizeArguments& arguments) {
  ENSURE(config, arguments.train || (!arguments.vocab_size && !arguments.model_type),
         "--vocab-size and --model-type require --train");
  ENSURE(config, !arguments.train || arguments.model,
         "--train requires --model FILE, the model file to write");
  ENSURE(config, !arguments.val_fraction || arguments.val_out, "--val-fraction requires --val-out");
  ENSURE(config, arguments.val_out != arguments.out, "--val-out must be another file than --out");
  data::TokenizeOptions options{.inputs = {arguments.inputs.begin(), arguments.inputs.end()},
                                .out = arguments.out};
  if (arguments.val_out) options.val_out = *arguments.val_out;
  options.val_fraction = arguments.val_fraction.value_or(options.val_fraction);
  options.tokenizer = *enum_called<TokenizerType>(arguments.tokenizer);
  ENSURE(config, options.tokenizer == TokenizerType::sentencepiece || !arguments.model,
         "--model and --train require --tokenizer sentencepiece");
  if (arguments.model) options.model = *arguments.model;
  options.append_end = arguments.append_end;
  options.workers = arguments.workers.value_or(usable_cores());
  return options;
}

/// Refuses to replace files before anything is read.
void check_free(const TokenizeArguments& arguments) {
  if (arguments.force) return;
  const auto check = [](const char* flag, const fs::path& file) {
    ENSURE(config, !path_exists(file),
           "{}: {} already exists\nhint: choose another file, or replace it with --force", flag,
           printable(file.string()));
  };
  check("--out", arguments.out);
  if (arguments.val_out) check("--val-out", *arguments.val_out);
  if (arguments.train) check("--model", *arguments.model);
}

Json json_of(const data::TokenizeReport& report, const TokenizeArguments& arguments) {
  const data::TokenRecord& train = report.train;
  Json json{{"schema", "trainctl.data_tokenize/2"},
            {"file", arguments.out},
            {"tokens", train.tokens},
            {"tokenizer", train.tokenizer},
            {"vocab_size", train.vocab_size},
            {"dtype", enum_name(train.dtype)},
            {"bytes", report.bytes}};
  if (report.val) {
    json["val_file"] = *arguments.val_out;
    json["val_tokens"] = report.val->tokens;
  }
  if (!train.model.empty()) {
    json["model"] = train.model;
    json["model_sha256"] = train.model_sha256;
  }
  return json;
}

void print_report(const std::string& file, const data::TokenRecord& record) {
  print(fmt::format("{}: {} ({}, vocabulary of {})", printable(file),
                    counted(record.tokens, "token"), enum_name(record.dtype),
                    with_thousands(record.vocab_size)));
}

int tokenize(const TokenizeArguments& arguments, Context& context) {
  keep_running_without_output(LostOutput::is_tolerated);
  const data::TokenizeOptions options = options_of(arguments);
  check_free(arguments);
  if (arguments.train) {
    data::TrainingOptions training;
    training.vocab_size = arguments.vocab_size.value_or(training.vocab_size);
    if (arguments.model_type) training.type = *enum_called<data::ModelType>(*arguments.model_type);
    data::train_tokenizer(options, training);
  }
  data::TokenizeReport report;
  run_until_signal(
      [&] {
        CounterLine line(context, "tokenize");
        report = data::tokenize(options, line.progress());
      },
      "stopped: no tokens were written\n");
  if (context.json) return print_json(json_of(report, arguments));
  print_report(arguments.out, report.train);
  if (report.val) print_report(*arguments.val_out, *report.val);
  return 0;
}

}  // namespace

void add_data_tokenize(CLI::App& data, Context& context) {
  const auto [verb, arguments] = add_verb(
      data, context, {"tokenize", "write texts as a file of tokens", kConfigGroup}, tokenize);
  add_options(
      verb,
      {{"inputs", arguments.inputs, "INPUT...", "text files, plain or .gz, read one after another"},
       {"--out", arguments.out, "FILE", "required: file of tokens to write"},
       {"--tokenizer", arguments.tokenizer, "NAME", "bytes or sentencepiece (default: bytes)",
        one_of({"bytes", "sentencepiece"})},
       {"--model", arguments.model, "FILE", "with sentencepiece: the model to use, or to train"},
       {"--train", arguments.train, "train the model on the texts first"},
       {"--vocab-size", arguments.vocab_size, "N", "with --train: number of pieces (default: 8000)",
        whole_number(260, 1'000'000)},
       {"--model-type", arguments.model_type, "TYPE",
        "with --train: unigram or bpe (default: unigram)", one_of({"unigram", "bpe"})},
       {"--append-end", arguments.append_end, "end each text with the model's end-of-text piece"},
       {"--val-out", arguments.val_out, "FILE", "write the last part of the texts to this file"},
       {"--val-fraction", arguments.val_fraction, "F",
        "with --val-out: fraction of the bytes for that part (default: 0.1)",
        within(0.000001, 0.999999)},
       {"--workers", arguments.workers, "N", "number of threads (default: all cores)",
        within(1, 256)},
       {"--force", arguments.force, "replace existing files"}});
  verb.get_option("--out")->required();
  verb.footer(
      "bytes          each byte is a token: a vocabulary of 256, and no model\n"
      "sentencepiece  the pieces of a SentencePiece model; texts must be UTF-8, and each line is\n"
      "               encoded separately, with its line break\n"
      "\n"
      "Train with dataset.train: {type: tokens, path: FILE, sequence_length: 256}. FILE.json\n"
      "records the tokenizer and the size of the vocabulary; keep both files together. A\n"
      "vocabulary of more than 65,536 needs 'dtype: uint32'.");
}

}  // namespace trainctl::app
