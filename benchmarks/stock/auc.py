"""The AUC over the whole split in an evaluation of TFX's Evaluator, as JSON.

python -m benchmarks.stock.auc EVALUATION_FOLDER
"""

import json
import sys

import tensorflow_model_analysis as tfma


def main() -> None:
    result = tfma.load_eval_result(sys.argv[1])
    overall = result.get_metrics_for_slice()
    print(json.dumps({name: overall[name]["doubleValue"] for name in ("auc", "example_count")}))


if __name__ == "__main__":
    main()
