// engine/frozen.py: greedy search and beam search over the engine's program, all steps in one call. What is
// chosen, and in which order of rounding, is what search/greedy.py and search/beam_search.py choose.

#include "decoding.h"
#include <cmath>
#include <memory>
#include <vector>

struct Search {
    const Operation *operations;
    i64 count;         // of the operations
    void **buffers;    // room for sentences · beam rows; from REMEMBERED on, a place for each layer
    const float *places;
    const i64 *firsts, *lengths;  // of each sentence's source
    i64 longest, sentences, beam, layers, width;  // width: bytes of what a row leaves in a layer
    i64 bos, eos, pad, forced, min_length, max_length, n_best, scores;  // forced: begins each output, or -1
    const double *penalties, *largest;  // by length: lp(Y), and the largest that a longer hypothesis can have
    i64 *tokens;       // out: [sentences, n_best, max_length], eos included
    float *log_p;      // out, alike; NaN in greedy search if no scores are asked for
    i64 *sizes;        // out: [sentences, n_best], 0 where there is none; untouched if a row had no finite logit
};

// A row with one more token: log-probability of the token, and of the whole (-inf: dead).
struct Extension {
    i64 row, token;
    float log_p;
    double total;
};

struct Found {
    double score;
    std::vector<i64> tokens;
    std::vector<float> log_p;
};

template <class T> class Walk {
  public:
    explicit Walk(const Search &search)
        : q(search), greedy(search.beam == 1), scores(search.scores || !greedy), count(greedy ? 1 : 2 * search.beam),
          per_sentence(1), kept(search.sentences) {
        for (i64 i = 0; i < q.sentences; i++) alive.push_back(i), next.push_back({0, q.bos, 0, 0});
    }

    void go() {
        for (seen = 1; seen <= q.max_length && !next.empty(); seen++) {
            remember();
            if (!step()) return;
            choose();
        }
        memset(q.sizes, 0, q.sentences * q.n_best * sizeof(i64));
        for (i64 i = 0; i < q.sentences; i++)
            for (size_t j = 0; j < kept[i].size(); j++) {
                const Found &found = kept[i][j];
                i64 place = i * q.n_best + (i64)j;
                q.sizes[place] = (i64)found.tokens.size();
                memcpy(q.tokens + place * q.max_length, found.tokens.data(), found.tokens.size() * sizeof(i64));
                memcpy(q.log_p + place * q.max_length, found.log_p.data(), found.log_p.size() * sizeof(float));
            }
    }

  private:
    const Search &q;
    const bool greedy, scores;
    const i64 count;
    i64 seen = 0, per_sentence;
    std::vector<std::vector<Found>> kept;       // of each sentence, best first
    std::vector<i64> alive;                     // the sentences still in the batch
    std::vector<Extension> next;                // the rows of the next step, `per_sentence` for each of these
    std::vector<int32_t> ancestors, older;      // [rows, seen], the row at each step of a row's hypothesis
    std::vector<std::vector<Extension>> past;   // the rows of each step
    std::vector<std::unique_ptr<char[]>> room;  // the keys and values of each step
    std::vector<i64> steps, sentences, tokens, ids;
    std::vector<float> values;

    i64 rows() const { return (i64)next.size(); }

    // Makes the extensions rows, with their ancestors, and room for what they leave.
    void remember() {
        ancestors.swap(older);
        ancestors.resize(rows() * seen);
        tokens.clear(), sentences.clear();
        for (i64 r = 0; r < rows(); r++) {
            if (seen > 1) memcpy(&ancestors[r * seen], &older[next[r].row * (seen - 1)], (seen - 1) * sizeof(int32_t));
            ancestors[r * seen + seen - 1] = (int32_t)r;
            tokens.push_back(next[r].token);
            sentences.push_back(alive[r / per_sentence]);
        }
        past.push_back(next);
        room.emplace_back(new char[q.layers * rows() * q.width]);
        for (i64 layer = 0; layer < q.layers; layer++) {
            q.buffers[REMEMBERED + layer] = room.back().get() + layer * rows() * q.width;
            steps.push_back((i64)q.buffers[REMEMBERED + layer]);
        }
    }

    // Whether every row has a finite logit.
    bool step() {
        i64 only = seen == 1 ? q.forced : -1, count = only < 0 ? this->count : 1;
        values.resize(rows() * count), ids.resize(rows() * count);
        i64 forbidden[] = {q.pad, q.bos, q.eos};
        execute_and_rank<T>(q.operations, q.count,
                            {q.buffers, rows(), seen, q.longest, q.layers, tokens.data(), nullptr, q.places,
                             steps.data(), ancestors.data(), sentences.data(), q.firsts, q.lengths},
                            {scores, count, forbidden, seen <= q.min_length ? 3 : 2, only, values.data(), ids.data()});
        for (i64 i = 0; i < rows() * count; i++) {
            if (i % count == 0 && !std::isfinite(values[i])) return false;
            values[i] = !scores ? NAN : values[i] > 0 ? 0 : values[i];  // a rounded log softmax may exceed it
        }
        return true;
    }

    void choose() {
        if (seen == 1 && q.forced >= 0) {
            for (i64 row = 0; row < rows(); row++) next[row] = {row, q.forced, values[row], (double)values[row]};
            return;
        }
        std::vector<Extension> goes_on;
        std::vector<i64> still;
        for (size_t place = 0; place < alive.size(); place++)
            if (greedy ? extend(place, goes_on) : extend_beam(place, goes_on)) still.push_back(alive[place]);
        alive.swap(still), next.swap(goes_on);
        per_sentence = q.beam;
    }

    // search/greedy.py; whether the sentence goes on, and then with what.
    bool extend(i64 row, std::vector<Extension> &goes_on) {
        Extension only = {row, ids[row], values[row], 0};
        if (only.token == q.eos || seen == q.max_length) keep(alive[row], 0, only);
        else goes_on.push_back(only);
        return only.token != q.eos;
    }

    // search/beam_search.py, a step for one sentence.
    bool extend_beam(i64 place, std::vector<Extension> &goes_on) {
        std::vector<Extension> best;
        for (i64 row = place * per_sentence; row < (place + 1) * per_sentence; row++)
            for (i64 j = row * count; j < (row + 1) * count; j++)
                offer(best, {row, ids[j], values[j], next[row].total + (double)values[j]});
        i64 sentence = alive[place];
        for (i64 j = 0; j < q.beam; j++) {
            bool ends = best[j].total > -INFINITY && (best[j].token == q.eos || seen == q.max_length);
            double score = best[j].total / q.penalties[seen];
            if (ends && admits(sentence, score)) keep(sentence, score, best[j]);
        }
        if (seen == q.max_length) return false;
        std::vector<Extension> lives;
        for (bool over : {false, true})
            for (const Extension &each : best)
                if (is_over(each) == over && (i64)lives.size() < q.beam) lives.push_back(each);
        for (Extension &each : lives)
            if (each.token == q.eos) each.total = -INFINITY;
        double bound = lives[0].total / q.largest[seen];
        if (bound == -INFINITY || !admits(sentence, bound)) return false;
        goes_on.insert(goes_on.end(), lives.begin(), lives.end());
        return true;
    }

    // Among the `count` best, the earlier first among equals.
    void offer(std::vector<Extension> &best, Extension each) const {
        size_t at = best.size();
        while (at > 0 && best[at - 1].total < each.total) at--;
        if ((i64)at == count) return;
        best.insert(best.begin() + at, each);
        if ((i64)best.size() > count) best.pop_back();
    }

    bool is_over(const Extension &each) const { return each.token == q.eos || each.total == -INFINITY; }

    bool admits(i64 sentence, double score) const {
        return (i64)kept[sentence].size() < q.n_best || score > kept[sentence].back().score;
    }

    // Lets the hypothesis in, behind its equals, and the last one out if they are too many.
    void keep(i64 sentence, double score, const Extension &last) {
        std::vector<Found> &found = kept[sentence];
        size_t at = found.size();
        while (at > 0 && found[at - 1].score < score) at--;
        Found fresh = {score, {}, {}};
        for (i64 t = 1; t < seen; t++) {
            const Extension &each = past[t][ancestors[last.row * seen + t]];
            fresh.tokens.push_back(each.token), fresh.log_p.push_back(each.log_p);
        }
        fresh.tokens.push_back(last.token), fresh.log_p.push_back(last.log_p);
        found.insert(found.begin() + at, std::move(fresh));
        if ((i64)found.size() > q.n_best) found.pop_back();
    }
};

BOTH(search, (const void *search), Walk<T>(*(const Search *)search).go())
