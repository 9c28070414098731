# The operator's image: docker build -t bireme-operator:0.1.0 .
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-cache-dir --target /app ".[kubernetes]"

FROM python:3.13-slim
COPY --from=build /app /app
ENV PYTHONPATH=/app PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER 65532:65532
ENTRYPOINT ["python3", "-m", "bireme.cli"]
CMD ["operator", "--leader-elect"]
