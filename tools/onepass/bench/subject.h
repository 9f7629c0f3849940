// What a benchmark measures, and the parts that all of them have.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bench/table.h"
#include "info/model_facts.h"
#include "model/text_model.h"

namespace onepass::tool {

struct Subject {
  std::string file;
  ModelFacts model;
  std::string backend, device, driver, kv;
  std::uint32_t threads = 0;
};
Subject subject_of(const std::string& file, const llm::Model& model, const std::string& kv);
// The build, the machine and the subject.
std::vector<Field> fields_of(const Subject& subject);

struct Mean {
  double mean = 0.0, deviation = 0.0;
  std::string text() const;  // "1.00 ± 0.01"
};
Mean mean_of(const std::vector<double>& values);
double median_of(std::vector<double> values);  // 0 of none
// Tokens per second of runs that took so many ns.
std::vector<double> speeds_of(std::uint32_t tokens, const std::vector<double>& ns);

// The same ids in every run.
std::vector<std::uint32_t> random_tokens(std::size_t n, std::uint32_t vocab);

// "2026-01-31T12:00:00Z"
std::string time_text();

// Where a row on stderr goes.
Status put_err(std::string_view text);

}  // namespace onepass::tool
